package bridge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// listPause keeps a flood of reasons from becoming a flood of readings.
const (
	listPause = 100 * time.Millisecond
	relist    = time.Second      // after a first reading that failed
	maxRelist = 30 * time.Second // however long a reading took
)

// wish asks for a new reading of the streams. It never blocks.
func (p *Publisher) wish() {
	select {
	case p.refresh <- struct{}{}:
	default:
	}
}

// readStreams reads the streams at the start, every few seconds, and on every
// wish, until ctx ends.
func (p *Publisher) readStreams(ctx context.Context) error {
	timer := time.NewTimer(p.cfg.Refresh)
	defer timer.Stop()
	for {
		if p.nc.IsConnected() {
			start := time.Now()
			p.readOnce(ctx)
			switch {
			case p.routes.Load() == nil: // nothing can be sent before
				timer.Reset(relist)
			default:
				// Where the list is long the server has more to do than to write it.
				timer.Reset(max(p.cfg.Refresh, min(50*time.Since(start), maxRelist)))
			}
		}
		pause := time.NewTimer(listPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
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

// agreeing is how many readings in a row must report that there is no JetStream
// before that is believed. A server reports so for a moment, too, while it starts or
// its accounts change. A message that only a core subscriber received would then
// count as delivered although its subject has a stream.
const agreeing = 3

// readOnce reads the streams and puts the new routes in place. When they
// cannot be read the old ones stay.
func (p *Publisher) readOnce(ctx context.Context) {
	streams, missing, err := listStreams(ctx, p.nc)
	old := p.routes.Load()
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errNoJetStream) {
		p.without++
	} else {
		p.without = 0
	}
	var refused *streamError
	known := old != nil && len(old.filters) > 0
	gone := map[string]bool{}
	switch {
	case err == nil:
		streams, missing, gone = p.confirm(ctx, old, streams, missing)
	case !errors.Is(err, errNoJetStream) || known && !errors.As(err, &refused) ||
		(known || old == nil) && p.without < agreeing:
		p.unlisted(err)
		return
	default: // the server says so again and again, or nobody ever said otherwise
		if old == nil || known {
			p.log.Info().Err(err).Msg("no jetstream here, every subject is core nats")
		}
	}
	p.listed()
	filters := p.filters(streams)
	untold := missing
	if old != nil {
		for filter, stream := range old.filters { // it exists, only its filters are unknown now
			if slices.Contains(missing, stream) {
				filters[filter] = stream
				untold = slices.DeleteFunc(slices.Clone(untold), func(name string) bool { return name == stream })
			}
		}
	}
	unsure := len(untold) > 0
	if unsure && (old == nil || !old.unsure) {
		p.log.Warn().Strs("streams", untold[:min(len(untold), 10)]).Msg(
			"streams do not answer and were never read; subjects that no other stream has are held until they do")
	}
	if old == nil || old.unsure != unsure || !maps.Equal(old.filters, filters) {
		next := newRoutes(filters)
		next.unsure = unsure
		p.routes.Store(next)
		p.hidden.listed(next, gone)
		p.log.Debug().Int("streams", len(streams)).Int("filters", len(filters)).Msg("streams read")
	}
	p.metrics.streams.Set(float64(len(streams)))
	p.told()
}

// confirm asks for each stream that was known and is not among those listed: a
// list of several pages misses one when another goes meanwhile. What the server
// does not deny stays, as a stream that does not answer.
func (p *Publisher) confirm(ctx context.Context, old *routes, streams []streamInfo,
	missing []string) ([]streamInfo, []string, map[string]bool) {
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
		var info streamInfo
		var refused *streamError
		switch err := apiAsk(ctx, p.nc, apiStreamInfo+name, nil, &info); {
		case err == nil:
			streams = append(streams, info)
		case errors.As(err, &refused) && refused.ErrCode == codeStreamNotFound:
			gone[name] = true
		default:
			missing = append(missing, name)
		}
	}
	return streams, missing, gone
}

// filters are the subject filters of all streams that messages may go to.
func (p *Publisher) filters(streams []streamInfo) map[string]string {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warned = short // streams that are gone, or well now, are forgotten
	return filters
}

// warn logs a stream's weakness when the last reading did not have it.
func (p *Publisher) warn(now map[string]bool, key, text, stream string, window time.Duration) {
	now[key] = true
	p.mu.Lock()
	known := p.warned[key]
	p.mu.Unlock()
	if !known {
		p.log.Warn().Str("stream", stream).Dur("duplicate_window", window).Dur("wanted", p.cfg.Window).Msg(text)
	}
}

// unlisted logs that the streams cannot be read, once until they can.
func (p *Publisher) unlisted(err error) {
	p.mu.Lock()
	before := p.silent
	p.silent = true
	p.mu.Unlock()
	if before {
		return
	}
	event := p.log.Warn().Err(err)
	if p.routes.Load() == nil {
		event.Str("needs_publish", apiStreamList).Msg("streams cannot be listed, nothing is delivered until they can")
		return
	}
	event.Msg("streams cannot be listed, going on with the list as it was")
}

func (p *Publisher) listed() {
	p.mu.Lock()
	before := p.silent
	p.silent = false
	p.mu.Unlock()
	if before {
		p.log.Info().Msg("streams can be listed again")
	}
}
