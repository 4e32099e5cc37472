package tarry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// readOwnPush publishes by tag and asks for the message with the next call: what was stored is known.
func readOwnPush(t *testing.T, d *dev) {
	c := d.client(t, WithRoute(ByStream))
	call := func(method, path, body string) error {
		return d.call(t.Context(), method, path, body)
	}
	for name, ask := range map[string]func(id string) error{
		"get":    func(id string) error { _, err := c.Tarry().Get(t.Context(), Ref{ID: id}); return err },
		"cancel": func(id string) error { _, err := c.Tarry().Cancel(t.Context(), Ref{ID: id}); return err },
		"cancel by topic": func(id string) error {
			_, err := c.Tarry().Cancel(t.Context(), Ref{ID: id, Topic: "own"})
			return err
		},
		"run": func(id string) error { _, err := c.Tarry().Run(t.Context(), Ref{ID: id}); return err },
		"reschedule": func(id string) error {
			_, err := c.Tarry().Reschedule(t.Context(), Ref{ID: id}, Change{Delay: new(2 * time.Hour)})
			return err
		},
		"GET":    func(id string) error { return call(http.MethodGet, "/v1/messages/"+id, "") },
		"DELETE": func(id string) error { return call(http.MethodDelete, "/v1/messages/"+id, "") },
		"PATCH":  func(id string) error { return call(http.MethodPatch, "/v1/messages/"+id, `{"delay":"2h"}`) },
		"POST":   func(id string) error { return call(http.MethodPost, "/v1/messages/"+id+"/run", "") },
	} {
		for n := range 25 {
			id := fmt.Sprintf("own-%s-%d", strings.ReplaceAll(name, " ", "-"), n)
			if err := c.PublishMsg(Tag(message("own", "body"), In(time.Hour), As(id))); err != nil {
				t.Fatal(err)
			}
			if err := ask(id); err != nil {
				t.Errorf("%s of %s: %v", name, id, err)
				break
			}
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} { // what nobody published stays unknown
		if err := call(method, "/v1/messages/own-nobody", ""); err == nil {
			t.Errorf("%s of what is unknown went well", method)
		}
	}
}

// call makes a call over HTTP.
func (d *dev) call(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, d.http+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return nil
}
