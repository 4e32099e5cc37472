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
		err := b.post(ctx, client, x)
		if err == nil {
			err = checkAnswer(x.answer.Bytes(), to-from)
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

func (b Batches) post(ctx context.Context, client *http.Client, x *exchange) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/messages/batch", bytes.NewReader(x.request))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	x.answer.Reset()
	if _, err := x.answer.ReadFrom(response.Body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, short(x.answer.Bytes()))
	}
	return nil
}

var errAnswer = errors.New("not every message was accepted as new")

// checkAnswer counts outcomes without decoding them: nothing in an answer repeats what was pushed, so the words of a
// refusal cannot come from a body.
func checkAnswer(answer []byte, want int) error {
	accepted, refused := bytes.Count(answer, []byte(`"uid":`)), bytes.Count(answer, []byte(`"error":`))
	again := bytes.Count(answer, []byte(`"duplicate":true`))
	if accepted != want || refused > 0 || again > 0 {
		return fmt.Errorf("%w: %d of %d accepted, %d refused, %d taken for duplicates: %s", errAnswer, accepted, want, refused, again, short(answer))
	}
	return nil
}

func short(text []byte) []byte { return text[:min(len(text), 300)] }
