package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Batches pushes over HTTP, several messages a request, and checks the outcome of each.
type Batches struct {
	URL         string // of the API
	Size        int    // messages a request
	Connections int
	Item        func(to []byte, n int) []byte // appends message n as JSON
	Merged      func(from, to int) int        // how many of a request's messages go into one that waits; nil: none
}

// Send pushes messages 0 to want-1. It stops early at the limit. Any refusal is an error.
func (b Batches) Send(ctx context.Context, want int, limit time.Duration) (Sent, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: b.Connections, MaxConnsPerHost: b.Connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 3 * patience}
	buffers := sync.Pool{New: func() any { return new(exchange) }}
	return Chunks(ctx, b.Connections, b.Size, want, limit, func(ctx context.Context, from, to int) error {
		x := buffers.Get().(*exchange)
		defer buffers.Put(x)
		x.request = b.body(x.request[:0], from, to)
		err := x.send(ctx, client, http.MethodPost, b.URL+"/v1/messages/batch")
		if err == nil {
			merged := 0
			if b.Merged != nil {
				merged = b.Merged(from, to)
			}
			err = checkAnswer(x.answer.Bytes(), to-from, merged)
		}
		if err != nil {
			return fmt.Errorf("push messages %d to %d: %w", from, to-1, err)
		}
		return nil
	})
}

// exchange holds the buffers of one request.
type exchange struct {
	request []byte
	answer  bytes.Buffer
}

func (b Batches) body(to []byte, from, end int) []byte {
	to = append(to, `{"messages":[`...)
	for n := from; n < end; n++ {
		if n > from {
			to = append(to, ',')
		}
		to = b.Item(to, n)
	}
	return append(to, `]}`...)
}

// send has one request answered; any status but a success is an error.
func (x *exchange) send(ctx context.Context, client *http.Client, method, url string) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(x.request))
	if err != nil {
		return err
	}
	if len(x.request) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	x.answer.Reset()
	if _, err := x.answer.ReadFrom(response.Body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("%s: %s", response.Status, short(x.answer.Bytes()))
	if response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusGatewayTimeout {
		err = fmt.Errorf("%w: %w", ErrStarved, err)
	}
	return err
}

// ErrStarved: tarry answered that a server which it needs did not answer in time, and nothing worse. On a machine whose
// other work starves that server, the answer is right.
var ErrStarved = errors.New("a server did not answer tarry in time")

var errAnswer = errors.New("not every message was accepted as it should be")

// checkAnswer counts outcomes without decoding them: no answer repeats pushed content, so the words of a refusal cannot
// be part of a body.
func checkAnswer(answer []byte, want, merged int) error {
	accepted, refused := bytes.Count(answer, []byte(`"uid":`)), bytes.Count(answer, []byte(`"error":`))
	again := bytes.Count(answer, []byte(`"duplicate":true`))
	went := bytes.Count(answer, []byte(`"merged":true`))
	if accepted == want && refused == 0 && again == 0 && went == merged {
		return nil
	}
	shown := answer[max(0, bytes.Index(answer, []byte(`{"error":`))):]
	err := fmt.Errorf("%w: %d of %d accepted, %d refused, %d taken for duplicates, %d of %d merged: %s",
		errAnswer, accepted, want, refused, again, went, merged, short(shown))
	starved := 0
	for _, word := range []string{"unavailable", "outcome_unknown"} {
		starved += bytes.Count(answer, []byte(`"error":"`+word+`"`))
	}
	if starved > 0 && starved == refused && again == 0 {
		err = fmt.Errorf("%w: %w", ErrStarved, err)
	}
	return err
}

func short(text []byte) []byte { return text[:min(len(text), 300)] }
