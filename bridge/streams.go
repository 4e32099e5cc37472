package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// The JetStream API calls that are made directly: their answers are large and only a few fields matter.
const (
	apiStreamList   = "$JS.API.STREAM.LIST"
	apiStreamInfo   = "$JS.API.STREAM.INFO."
	apiConsumerInfo = "$JS.API.CONSUMER.INFO."
	apiStreamNames  = "$JS.API.STREAM.NAMES"
	// advisories report created, changed and deleted streams: the kind, then the stream.
	advisories = "$JS.EVENT.ADVISORY.STREAM.*.*"

	apiTimeout = 2 * time.Second
	// listTimeout leaves room for the 4 s that a server of a cluster waits for silent streams before it answers without
	// them.
	listTimeout = 6 * time.Second
	maxPages    = 1000 // of 256 streams each
	maxAgain    = 5    // if streams keep changing, the last reading counts
)

// ErrNoJetStream means that this account has no JetStream.
var ErrNoJetStream = errors.New("jetstream is off")

// StreamInfo is the part of a stream's configuration and state that matters here. The values of its settings stay text,
// so that those of a newer server can be read.
type StreamInfo struct {
	Config struct {
		Name         string        `json:"name"`
		Subjects     []string      `json:"subjects"`
		Retention    string        `json:"retention"`
		MaxMsgs      int64         `json:"max_msgs"`
		MaxBytes     int64         `json:"max_bytes"`
		MaxAge       time.Duration `json:"max_age"`
		Discard      string        `json:"discard"`
		PerSubject   int64         `json:"max_msgs_per_subject"`
		Storage      string        `json:"storage"`
		Replicas     int           `json:"num_replicas"`
		NoAck        bool          `json:"no_ack"`
		Duplicates   time.Duration `json:"duplicate_window"`
		Sealed       bool          `json:"sealed"`
		Mirror       *struct{}     `json:"mirror"`
		Sources      []struct{}    `json:"sources"`
		MsgSchedules bool          `json:"allow_msg_schedules"`
		Transform    *struct{}     `json:"subject_transform"`
		MsgTTL       bool          `json:"allow_msg_ttl"`
		Rollup       bool          `json:"allow_rollup_hdrs"`
	} `json:"config"`
	State struct {
		Messages  uint64 `json:"messages"`
		FirstSeq  uint64 `json:"first_seq"`
		LastSeq   uint64 `json:"last_seq"`
		Bytes     int64  `json:"bytes"`
		Consumers int    `json:"consumer_count"`
	} `json:"state"`
	Cluster struct {
		Leader   string `json:"leader"`
		Replicas []struct {
			Name    string `json:"name"`
			Current bool   `json:"current"`
			Offline bool   `json:"offline"`
		} `json:"replicas"`
	} `json:"cluster"`
	TS time.Time `json:"ts"`
}

// The server's codes that mean "no JetStream here".
const (
	codeNotEnabledForAccount = 10039
	codeNotEnabled           = 10076
)

// apiAsk is Ask with the usual time-out.
func apiAsk(ctx context.Context, nc *nats.Conn, subject string, request, out any) error {
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	return Ask(ctx, nc, subject, request, out)
}

// Ask sends one request to the JetStream API and reads the answer into out. It also returns ErrNoJetStream if there is
// no responder; the caller decides whether to trust that.
func Ask(ctx context.Context, nc *nats.Conn, subject string, request, out any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("ask %s: %w", subject, err)
		}
	}
	msg, err := nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("ask %s: nobody answers: %w", subject, ErrNoJetStream)
	} else if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	var refused struct {
		Error *streamError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &refused); err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	if e := refused.Error; e != nil {
		if e.ErrCode == codeNotEnabled || e.ErrCode == codeNotEnabledForAccount {
			return fmt.Errorf("ask %s: %w: %w", subject, ErrNoJetStream, e)
		}
		return fmt.Errorf("ask %s: %w", subject, e)
	}
	if err := json.Unmarshal(msg.Data, out); err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	return nil
}

// ListStreams reads all streams, page by page. missing names those that exist but whose servers did not answer. The
// server pages the list by offset, so if the number of streams changes between two pages, the list is read again.
func ListStreams(ctx context.Context, nc *nats.Conn) (streams []StreamInfo, missing []string, err error) {
	total, again := -1, 0
	for range maxPages {
		var page struct {
			Total   int          `json:"total"`
			Streams []StreamInfo `json:"streams"`
			Missing []string     `json:"missing"`
		}
		call, stop := context.WithTimeout(ctx, listTimeout)
		err := Ask(call, nc, apiStreamList, map[string]int{"offset": len(streams) + len(missing)}, &page)
		stop()
		if err != nil {
			return nil, nil, err
		}
		if total >= 0 && total != page.Total && again < maxAgain {
			streams, missing, total = nil, nil, -1
			again++
			continue
		}
		total = page.Total
		before := len(streams) + len(missing)
		streams = append(streams, page.Streams...)
		for _, name := range page.Missing {
			// A stream whose servers are all unreachable is in both lists.
			if !slices.ContainsFunc(page.Streams, func(s StreamInfo) bool { return s.Config.Name == name }) {
				missing = append(missing, name)
			}
		}
		if now := len(streams) + len(missing); now == before || now >= page.Total {
			return streams, missing, nil
		}
	}
	return nil, nil, fmt.Errorf("ask %s: more than %d pages", apiStreamList, maxPages)
}

// listPause is the minimum time between two readings, however many are requested.
const (
	listPause = 100 * time.Millisecond
	relist    = time.Second      // after a first reading that failed
	maxRelist = 30 * time.Second // however long a reading took
)

// wish requests a new reading of the streams. It never blocks.
func (p *Publisher) wish() {
	signal(p.refresh)
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
		if err := sleep(ctx, listPause); err != nil {
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
	streams, missing, err := ListStreams(ctx, p.nc)
	old := p.routes.Load()
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, ErrNoJetStream) {
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
	case !errors.Is(err, ErrNoJetStream) || known && !errors.As(err, &refused) ||
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
	p.announce()
}

// confirm asks for each known stream that is not in the list: a list of several pages misses a stream if another one is
// deleted meanwhile. If the server has the stream, confirm adds it to streams; if the server does not answer, to
// missing.
func (p *Publisher) confirm(ctx context.Context, old *routes, streams []StreamInfo,
	missing []string) ([]StreamInfo, []string, map[string]bool) {
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
		var info StreamInfo
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

// filters returns the subject filters of all streams to which messages may go.
func (p *Publisher) filters(streams []StreamInfo) map[string]string {
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
		event.Str("needs_publish", apiStreamList).Msg("streams cannot be listed, nothing is delivered until they can")
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
