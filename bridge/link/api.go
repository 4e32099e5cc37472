package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The JetStream API calls that are made directly: their answers are large and only a few fields matter.
const (
	APIStreamList   = "$JS.API.STREAM.LIST"
	APIStreamInfo   = "$JS.API.STREAM.INFO."
	APIConsumerInfo = "$JS.API.CONSUMER.INFO."
	// Advisories report created, changed and deleted streams: the kind, then the stream.
	Advisories = "$JS.EVENT.ADVISORY.STREAM.*.*"

	APITimeout = 2 * time.Second
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

// StreamError is a stream's refusal.
type StreamError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// Error includes the server's own code, so that operators can look it up.
func (e *StreamError) Error() string {
	if strings.Contains(e.Description, "no space left on device") {
		return fmt.Sprintf("stream: the disk is full: %s (%d, %d)", e.Description, e.Code, e.ErrCode)
	}
	return fmt.Sprintf("stream: %s (%d, %d)", e.Description, e.Code, e.ErrCode)
}

// The server's codes: the first two mean "no JetStream here".
const (
	codeNotEnabledForAccount = 10039
	codeNotEnabled           = 10076
	CodeStreamNotFound       = 10059
	CodeConsumerNotFound     = 10014
)

// AskBriefly is Ask with the usual time-out.
func AskBriefly(ctx context.Context, nc *nats.Conn, subject string, request, out any) error {
	ctx, stop := context.WithTimeout(ctx, APITimeout)
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
		Error *StreamError `json:"error"`
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
		err := Ask(call, nc, APIStreamList, map[string]int{"offset": len(streams) + len(missing)}, &page)
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
	return nil, nil, fmt.Errorf("ask %s: more than %d pages", APIStreamList, maxPages)
}

// HeaderStatus is the header by which the server says something about a request.
const HeaderStatus = "Status"

// Purge is a request to drop a subject's messages: all but the newest Keep, if Keep is not 0, or those below a
// sequence.
type Purge struct {
	Filter string `json:"filter,omitempty"`
	Keep   int64  `json:"keep,omitempty"`
	Below  uint64 `json:"seq,omitempty"`
}

// StreamName returns the name of a namespace's intake stream.
func StreamName(namespace string) string { return StreamPrefix + namespace }

// RejectsName returns the name of a namespace's stream of rejects.
func RejectsName(namespace string) string { return rejectsPrefix + namespace }

const (
	StreamPrefix  = "TARRY_"
	rejectsPrefix = "TARRY_REJECTED_"
)

// RejectsSubject returns the start of the subjects of rejects. The first token of the refused push's topic follows, so
// the limits of a subject apply to all topics with the same first token.
func RejectsSubject(namespace string) string { return "tarry." + namespace + ".rejected" }
