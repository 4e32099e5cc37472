package publish

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
)

// listPause is the minimum time between two readings, however many are requested.
const (
	listPause = 100 * time.Millisecond
	relist    = time.Second      // after a first reading that failed
	maxRelist = 30 * time.Second // however long a reading took
)

// wish requests a new reading of the streams. It never blocks.
func (p *Publisher) wish() {
	scheduler.Signal(p.refresh)
}

// readStreams reads the streams at the start, every few seconds, and on every request, until ctx ends.
func (p *Publisher) readStreams(ctx context.Context) error {
	timer := time.NewTimer(p.cfg.Refresh)
	defer timer.Stop()
	for {
		if p.nc.IsConnected() {
			start := time.Now()
			p.readOnce(ctx)
			// With a long list, readings are rarer to spare the server.
			next := max(p.cfg.Refresh, min(50*time.Since(start), maxRelist))
			if p.routes.Load() == nil { // nothing can be sent before
				next = relist
			}
			timer.Reset(next)
		}
		if err := scheduler.Sleep(ctx, listPause); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			timer.Reset(p.cfg.Refresh)
		case <-p.refresh:
		}
	}
}

// agreeing is the number of consecutive readings that must report the absence of JetStream before it is trusted. A
// server also reports its absence for a moment while it starts or its accounts change. A message that only a core
// subscriber received would then count as delivered although its subject has a stream.
const agreeing = 3

// readOnce reads the streams and puts the new routes in place. If they cannot be read, the old ones stay.
func (p *Publisher) readOnce(ctx context.Context) {
	streams, missing, err := link.ListStreams(ctx, p.nc)
	old := p.routes.Load()
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, link.ErrNoJetStream) {
		p.without++
	} else {
		p.without = 0
	}
	var refused *link.StreamError
	known := old != nil && len(old.filters) > 0
	gone := map[string]bool{}
	switch {
	case err == nil:
		streams, missing, gone = p.confirm(ctx, old, streams, missing)
	case !errors.Is(err, link.ErrNoJetStream) || known && !errors.As(err, &refused) ||
		(known || old == nil) && p.without < agreeing:
		p.unlisted(err)
		return
	default: // several readings in a row found no JetStream, or no streams were known
		if old == nil || known {
			p.log.Info().Err(err).Msg("no jetstream here, every subject is core nats")
		}
	}
	p.listed()
	filters := p.filters(streams)
	unread := missing
	if old != nil {
		for filter, stream := range old.filters { // the stream exists, but its filters cannot be read now
			if slices.Contains(missing, stream) {
				filters[filter] = stream
				unread = slices.DeleteFunc(slices.Clone(unread), func(name string) bool { return name == stream })
			}
		}
	}
	unsure := len(unread) > 0
	if unsure && (old == nil || !old.unsure) {
		p.log.Warn().Strs("streams", unread[:min(len(unread), 10)]).Msg(
			"streams do not answer and were never read; messages on subjects of no other stream wait until they do")
	}
	if old == nil || old.unsure != unsure || !maps.Equal(old.filters, filters) {
		next := newRoutes(filters)
		next.unsure = unsure
		p.routes.Store(next)
		p.hidden.listed(next, gone)
		p.log.Debug().Int("streams", len(streams)).Int("filters", len(filters)).Msg("streams read")
	}
	p.metrics.streams.Set(float64(len(streams)))
}

// confirm asks for each known stream that is not in the list: a list of several pages misses a stream if another one is
// deleted meanwhile. If the server has the stream, confirm adds it to streams; if the server does not answer, to
// missing.
func (p *Publisher) confirm(ctx context.Context, old *routes, streams []link.StreamInfo,
	missing []string) ([]link.StreamInfo, []string, map[string]bool) {
	gone := map[string]bool{}
	if old == nil {
		return streams, missing, gone
	}
	seen := make(map[string]bool, len(streams)+len(missing))
	for i := range streams {
		seen[streams[i].Config.Name] = true
	}
	for _, name := range missing {
		seen[name] = true
	}
	for _, name := range old.filters {
		if seen[name] {
			continue
		}
		seen[name] = true
		var info link.StreamInfo
		var refused *link.StreamError
		switch err := link.AskBriefly(ctx, p.nc, link.APIStreamInfo+name, nil, &info); {
		case err == nil:
			streams = append(streams, info)
		case errors.As(err, &refused) && refused.ErrCode == link.CodeStreamNotFound:
			gone[name] = true
		default:
			missing = append(missing, name)
		}
	}
	return streams, missing, gone
}

// filters returns the subject filters of all streams to which messages may go.
func (p *Publisher) filters(streams []link.StreamInfo) map[string]string {
	filters := make(map[string]string, len(streams))
	short := map[string]bool{}
	for i := range streams {
		c := &streams[i].Config
		if slices.Contains(p.cfg.Own, c.Name) {
			continue
		}
		if c.NoAck {
			p.warn(short, c.Name+" no_ack", "stream acknowledges nothing; its subjects count as core nats", c.Name, 0)
			continue
		}
		if c.Duplicates < p.cfg.Window && len(c.Subjects) > 0 {
			p.warn(short, c.Name,
				"duplicate window of the stream is shorter than a takeover; around one a message may arrive twice",
				c.Name, c.Duplicates)
		}
		for _, filter := range c.Subjects {
			filters[filter] = c.Name
		}
	}
	p.warned = short // streams that are gone, or have recovered, are forgotten
	return filters
}

// warn logs a stream's weakness unless the last reading found it as well.
func (p *Publisher) warn(now map[string]bool, key, text, stream string, window time.Duration) {
	now[key] = true
	if !p.warned[key] {
		p.log.Warn().Str("stream", stream).Dur("duplicate_window", window).Dur("wanted", p.cfg.Window).Msg(text)
	}
}

// unlisted logs that the streams cannot be read, once per outage.
func (p *Publisher) unlisted(err error) {
	if p.silent {
		return
	}
	p.silent = true
	event := p.log.Warn().Err(err)
	if p.routes.Load() == nil {
		event.Str("needs_publish", link.APIStreamList).Msg("streams cannot be listed, nothing is delivered until they can")
		return
	}
	event.Msg("streams cannot be listed, going on with the list as it was")
}

func (p *Publisher) listed() {
	if p.silent {
		p.silent = false
		p.log.Info().Msg("streams can be listed again")
	}
}
