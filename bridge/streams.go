package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// The parts of the JetStream API that are asked by hand: the answers are large
// and only a few fields matter.
const (
	apiStreamList   = "$JS.API.STREAM.LIST"
	apiStreamInfo   = "$JS.API.STREAM.INFO."
	apiConsumerInfo = "$JS.API.CONSUMER.INFO."
	apiStreamNames  = "$JS.API.STREAM.NAMES"
	// advisories tell of streams that came, changed or went: the kind, then the stream.
	advisories = "$JS.EVENT.ADVISORY.STREAM.*.*"

	apiTimeout = 2 * time.Second
	// listTimeout leaves room for the 4 s that a server of a cluster waits for
	// streams that are silent, before it answers without them.
	listTimeout = 6 * time.Second
	maxPages    = 1000 // of 256 streams each
	maxAgain    = 5    // where streams never stop to come and go, what the last reading has counts
)

// errNoJetStream: this account has no JetStream.
var errNoJetStream = errors.New("jetstream is off")

// streamInfo is what matters of one stream.
type streamInfo struct {
	Config struct {
		Name       string        `json:"name"`
		Subjects   []string      `json:"subjects"`
		Duplicates time.Duration `json:"duplicate_window"`
		NoAck      bool          `json:"no_ack"`
	} `json:"config"`
	State struct {
		Messages uint64 `json:"messages"`
		FirstSeq uint64 `json:"first_seq"`
		LastSeq  uint64 `json:"last_seq"`
	} `json:"state"`
	Cluster struct {
		Leader string `json:"leader"`
	} `json:"cluster"`
	TS time.Time `json:"ts"`
}

// The server's codes that mean "no JetStream here".
const (
	codeNotEnabledForAccount = 10039
	codeNotEnabled           = 10076
)

// apiAsk sends one request to the JetStream API and reads the answer into out.
// Nobody there to answer is errNoJetStream as well; whether to believe it is
// for the caller, who may know better.
func apiAsk(ctx context.Context, nc *nats.Conn, subject string, request, out any) error {
	ctx, stop := context.WithTimeout(ctx, apiTimeout)
	defer stop()
	return apiAskUntil(ctx, nc, subject, request, out)
}

// apiAskUntil is apiAsk with the time-out that ctx has.
func apiAskUntil(ctx context.Context, nc *nats.Conn, subject string, request, out any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("ask %s: %w", subject, err)
		}
	}
	msg, err := nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("ask %s: nobody answers: %w", subject, errNoJetStream)
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
			return fmt.Errorf("ask %s: %w: %w", subject, errNoJetStream, e)
		}
		return fmt.Errorf("ask %s: %w", subject, e)
	}
	if err := json.Unmarshal(msg.Data, out); err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	return nil
}

// listStreams reads all streams, page by page. missing names those that exist
// but whose servers did not answer. Pages are cut by number, so when streams
// come or go between two of them the list is read again.
func listStreams(ctx context.Context, nc *nats.Conn) (streams []streamInfo, missing []string, err error) {
	total, again := -1, 0
	for range maxPages {
		var page struct {
			Total   int          `json:"total"`
			Streams []streamInfo `json:"streams"`
			Missing []string     `json:"missing"`
		}
		call, stop := context.WithTimeout(ctx, listTimeout)
		err := apiAskUntil(call, nc, apiStreamList, map[string]int{"offset": len(streams) + len(missing)}, &page)
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
			// One whose servers are all away stands in both lists.
			if !slices.ContainsFunc(page.Streams, func(s streamInfo) bool { return s.Config.Name == name }) {
				missing = append(missing, name)
			}
		}
		if now := len(streams) + len(missing); now == before || now >= page.Total {
			return streams, missing, nil
		}
	}
	return nil, nil, fmt.Errorf("ask %s: more than %d pages", apiStreamList, maxPages)
}
