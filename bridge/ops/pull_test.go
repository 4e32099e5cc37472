package ops_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

var someReceipt = ops.Receipt{UID: "t-0123456789abcdef", Nonce: 0xfedcba9876543210, Topic: "orders.remind"}

func TestReceipt_IsReadOnlyAsItWasWritten(t *testing.T) {
	t.Parallel()
	text := someReceipt.String()
	if got, err := ops.ParseReceipt(text); err != nil || got != someReceipt {
		t.Fatalf("%s: %+v, %v", text, got, err)
	}
	for name, bad := range map[string]string{
		"empty": "", "short": text[:32], "cut": text[:len(text)-1], "longer": text + "=", "upper": strings.ToUpper(text),
		"no nonce":  text[:16] + strings.Repeat("0", 16) + text[32:],
		"no hex":    text[:16] + strings.Repeat("g", 16) + text[32:],
		"no uid":    "i" + text[1:],
		"wildcards": ops.Receipt{UID: someReceipt.UID, Nonce: 1, Topic: "orders.*"}.String(),
		"spread":    text[:40] + "\n" + text[40:],
	} {
		_, err := ops.ParseReceipt(bad)
		if refused := new(wire.Error); !errors.As(err, &refused) || refused.Word != ops.WordReceipt {
			t.Errorf("%s: %q: %v", name, bad, err)
		}
	}
}

func FuzzReceipt(f *testing.F) {
	f.Add(someReceipt.String())
	f.Add(strings.Repeat("0", 40))
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ops.ParseReceipt(text); err == nil && r.String() != text {
			t.Fatalf("%q is read as %+v, which is %q", text, r, r.String())
		}
	})
}

func FuzzDecodePull(f *testing.F) {
	f.Add([]byte(`{"max":10,"lease":"1m","consumer":"a","max_bytes":1,"wait":0}`), "extend", false)
	f.Add([]byte(`{"attempt":"a","sending":2}`), "extend", false)
	f.Add([]byte(`{"receipts":["a"],"delay":"1m"}`), "nack", true)
	f.Add([]byte(`{"topics":["a","b.c"],"max":2}`), "nack", true)
	f.Fuzz(func(t *testing.T, data []byte, verb string, many bool) {
		sound := func(p *ops.Polling) bool {
			return (p.Max == nil || *p.Max >= 1 && *p.Max <= ops.MaxPull) && (p.MaxBytes == nil || *p.MaxBytes >= 1) &&
				(p.Lease == 0 || p.Lease >= wire.LeastLease && p.Lease <= wire.MostLease) && p.Wait <= ops.MaxWait &&
				p.Sending >= 0 && p.Sending <= ops.MaxSendings && (p.Sending > 0) == (p.Attempt != "")
		}
		if p, err := inBody("POST /v1/topics/{topic}/pull", string(data)); err == nil && !sound(&p.(*ops.Pull).Polling) {
			t.Fatalf("%q is read as %+v", data, p)
		}
		if p, err := inBody("POST /v1/pull", string(data)); err == nil {
			p := p.(*ops.PullAny)
			if !sound(&p.Polling) || len(p.Topics) < 1 || len(p.Topics) > ops.MaxTopics ||
				slices.ContainsFunc(p.Topics, func(s string) bool { return wire.CheckSubject(s) != nil }) {
				t.Fatalf("%q is read as %+v", data, p)
			}
		}
		route := "POST /v1/leases/{receipt}/" + verb
		if many {
			route = "POST /v1/leases/" + verb
		}
		if !slices.Contains(ops.Verbs(), verb) {
			return
		}
		if s, err := inBody(route, string(data)); err == nil {
			s := s.(*ops.Settlement)
			if len(s.Receipts) > ops.MaxPull || many == (s.Receipt != "") || s.Delay != nil && *s.Delay < 0 {
				t.Fatalf("%q is read as %+v", data, s)
			}
		}
	})
}

func TestAppendPulled_IsJSONWithEveryByte(t *testing.T) {
	t.Parallel()
	all := []ops.Pulled{
		{ID: `a"b`, Receipt: someReceipt, Key: "k", Headers: []wire.Header{{Name: "A", Value: "1"},
			{Name: "A", Value: "2"}, {Name: "B", Value: `"`}}, Body: []byte("text\n"), Priority: 7, Due: 1896076800001,
			Attempt: 2, LeaseUntil: 1896076830001, LeaseMS: 30000},
		{ID: someReceipt.UID, Receipt: someReceipt, Body: []byte{0xff, 0}, Due: 1, Attempt: 1, LeaseUntil: 2, LeaseMS: -1},
		{ID: "empty", Receipt: someReceipt, Due: 1, Attempt: 1},
	}
	var got struct{ Messages []map[string]any }
	if err := json.Unmarshal(ops.AppendPulled(nil, all), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": `a"b`, "uid": someReceipt.UID, "topic": "orders.remind", "key": "k", "body": "text\n",
		"headers":  map[string]any{"A": []any{"1", "2"}, "B": []any{`"`}},
		"priority": 7.0, "due": "2030-01-31T08:00:00.001Z", "attempt": 2.0, "receipt": someReceipt.String(),
		"lease_until": "2030-01-31T08:00:30.001Z", "lease_ms": 30000.0}
	if len(got.Messages) != 3 || !reflect.DeepEqual(got.Messages[0], want) {
		t.Fatalf("got %v\nwant %v", got.Messages[0], want)
	}
	if b := got.Messages[1]; b["body_base64"] != "/wA=" || b["body"] != nil || got.Messages[2]["body"] != "" {
		t.Errorf("got %v", got.Messages[1:])
	}
}
