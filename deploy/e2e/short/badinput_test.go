package short_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

const maxPayload = 256 << 10

// bad is a push that must be refused: by HTTP with what json says, by tag with subject and headers. Empty: not that
// way.
type bad struct {
	name    string
	json    string
	subject string // without the prefix
	headers nats.Header
	word    string
	says    []string // the field and the limit, in words of both doors
}

func badPushes(ns string) []bad {
	long := strings.Repeat("t", 300)
	tag := func(pairs ...string) nats.Header {
		h := nats.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
		}
		return h
	}
	delay := func(name, text, word string, says ...string) bad {
		return bad{name, fmt.Sprintf(`{"topic":"bells.a","delay":%q}`, text), "bells.a", tag("Tarry-Delay", text), word,
			append(says, "elay")}
	}
	at := func(name, text, word string, says ...string) bad {
		return bad{name, fmt.Sprintf(`{"topic":"bells.a","at":%q}`, text), "bells.a", tag("Tarry-At", text), word, says}
	}
	topic := func(name, text string, byTag bool, says ...string) bad {
		b := bad{name, fmt.Sprintf(`{"topic":%q,"delay":"1s"}`, text), "", tag("Tarry-Delay", "1s"), "invalid_topic",
			append(says, "topic")}
		if byTag {
			b.subject = text
		}
		return b
	}
	return []bad{
		topic("a wildcard", "bells.*", false, "wildcard"),
		topic("a full wildcard", "bells.>", false, "wildcard"),
		topic("an empty topic", "", false, "empty", "255"),
		topic("an empty token", "bells..a", false, "empty token"),
		topic("a topic that ends with a dot", "bells.", false, "empty token"),
		topic("a long topic", long, true, "300", "255"),
		topic("a subject of the server", "$JS.API.STREAM.DELETE.JOBS", true, "$"),
		topic("an inbox", "_INBOX.abc", true, "_INBOX"),
		topic("the intake itself", "delayed.bells.a", true, "delayed."),
		topic("tarry's own requests", "tarry."+ns+".api.push", true, "tarry."),
		topic("a blank", "bells a", false, "blank"),
		topic("a control character", "bells.\n", false, "control character"),
		delay("a negative delay", "-1s", "invalid_delay", "negative", "0"),
		delay("a negative number", "-5", "invalid_delay", "negative", "0"),
		delay("not a number", "NaN", "invalid_delay", "20m"),
		delay("infinity", "+Inf", "invalid_delay", "20m"),
		delay("a number without a unit", "20", "invalid_delay", "20ms for milliseconds, 20s for seconds"),
		delay("an overflowing number", "99999999999999999999ms", "invalid_delay", "3653 days"),
		delay("an overflowing duration", "9999999999h", "invalid_delay", "3653 days"),
		delay("a little more than ten years", "3653d1ms", "invalid_delay", "3653 days"),
		delay("a unit nobody knows", "3 fortnights", "invalid_delay", "20m"),
		delay("an exponent", "1e6", "invalid_delay", "20m"),
		delay("a huge delay", strings.Repeat("9", 500), "invalid_delay", "500", "64"),
		at("seconds", "1896076800", "invalid_at", "seconds", "100000000000"),
		at("the year 9999", "9999-12-31T23:59:59Z", "invalid_at", "3653 days"),
		at("the year 9999 in milliseconds", "253402300799000", "invalid_at", "3653 days"),
		at("eleven years ahead", time.Now().AddDate(11, 0, 0).UTC().Format(time.RFC3339), "too_far", "limit"),
		at("no time", "tomorrow", "invalid_at", "RFC 3339"),
		at("a 30th of February", "2030-02-30T00:00:00Z", "invalid_at", "RFC 3339"),
		{"neither delay nor at", `{"topic":"bells.a"}`, "bells.a", tag("X", "1"), "missing_delay", []string{"missing"}},
		{"both delay and at", `{"topic":"bells.a","delay":"1s","at":1896076800000}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-At", "1896076800000"), "delay_and_at", []string{"both"}},
		{"a header of the server", `{"topic":"bells.a","delay":"1s","headers":{"Nats-Rollup":"all"}}`, "bells.a",
			tag("Tarry-Delay", "1s", "Nats-Rollup-X", "all"), "invalid_header", []string{"Nats-"}},
		{"a status without a body", `{"topic":"bells.a","delay":"1s","headers":{"Status":"paid"}}`, "", nil,
			"invalid_header", []string{"Status", "empty body"}},
		{"64 KiB of headers", `{"topic":"bells.a","delay":"1s","headers":{"X":"` + strings.Repeat("v", 64<<10) + `"}}`,
			"bells.a", tag("Tarry-Delay", "1s", "X", strings.Repeat("v", 63<<10)), "too_large",
			[]string{"headers", "32768"}},
		{"a control character in a header", `{"topic":"bells.a","delay":"1s","headers":{"X":"a\u0007"}}`, "bells.a",
			tag("Tarry-Delay", "1s", "X", "a\a"), "invalid_header", []string{"X", "control character"}},
		{"a line break in a header", `{"topic":"bells.a","delay":"1s","headers":{"X":"a\r\nNats-Rollup: all"}}`, "",
			nil, "invalid_header", []string{"X", "control character"}},
		{"a header's name with a colon", `{"topic":"bells.a","delay":"1s","headers":{"X: y":"1"}}`, "", nil,
			"invalid_header", []string{"name"}},
		{"a tag among the headers", `{"topic":"bells.a","delay":"1s","headers":{"Tarry-Delay":"1s"}}`, "", nil,
			"invalid_header", []string{"Tarry-Delay"}},
		{"a misspelt tag", `{"topic":"bells.a","delay":"1s","dealy":"2s"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Dealy", "2s"), "unknown_", []string{"ealy"}},
		{"a tag twice", `{"topic":"bells.a","delay":"1s","delay":"2s"}`, "bells.a",
			tag("Tarry-Delay", "1s", "tarry-delay", "2s"), "repeated_", []string{"more than once"}},
		{"a long id", `{"topic":"bells.a","delay":"1s","id":"` + long + `"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Id", long), "invalid_id", []string{"300", "128"}},
		{"a control character in an id", `{"topic":"bells.a","delay":"1s","id":"a\u0000b"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Id", "a\x01b"), "invalid_id", []string{"control character"}},
		{"a long key", `{"topic":"bells.a","delay":"1s","key":"` + long + `"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Key", long), "invalid_key", []string{"300", "128"}},
		{"a priority of 256", `{"topic":"bells.a","delay":"1s","priority":256}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Priority", "256"), "invalid_priority", []string{"256", "255"}},
		{"a negative priority", `{"topic":"bells.a","delay":"1s","priority":-1}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Priority", "-1"), "invalid_priority", []string{"-1", "255"}},
		{"a time to live of nothing", `{"topic":"bells.a","delay":"1s","ttl":0}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-TTL", "0"), "invalid_ttl", []string{"1ms"}},
		{"a retry without an id", `{"topic":"bells.a","delay":"1s","attempt":2}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Attempt", "2"), "invalid_attempt", []string{"needs the"}},
		{"a way to merge that there is not", `{"topic":"bells.a","delay":"1s","on_duplicate":"sometimes"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-On-Duplicate", "sometimes"), "invalid_on_duplicate",
			[]string{"sometimes", "debounce"}},
		{"a retry schedule that is none", `{"topic":"bells.a","delay":"1s","retry":"1s,2x"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Retry", "1s,2x"), "invalid_retry", []string{"etry"}},
		{"a longest wait without debounce", `{"topic":"bells.a","delay":"1s","max_wait":"1s"}`, "bells.a",
			tag("Tarry-Delay", "1s", "Tarry-Max-Wait", "1s"), "invalid_max_wait", []string{"debounce"}},
		{"not JSON", `{"topic":"bells.a","delay":"1s"`, "", nil, "invalid_json", nil},
		{"more than one value", `{"topic":"bells.a","delay":"1s"}{}`, "", nil, "invalid_json", nil},
		{"a list", `["bells.a"]`, "", nil, "invalid_json", nil},
		{"a delay that is an object", `{"topic":"bells.a","delay":{}}`, "", nil, "invalid_delay", []string{"delay"}},
		{"a delay with a fraction of a number", `{"topic":"bells.a","delay":1.5}`, "", nil, "invalid_delay",
			[]string{"delay"}},
		{"a body that is no base64", `{"topic":"bells.a","delay":"1s","body_base64":"%%"}`, "", nil, "invalid_body",
			[]string{"body_base64"}},
		{"two bodies", `{"topic":"bells.a","delay":"1s","body":"a","body_base64":"YQ=="}`, "", nil, "invalid_body",
			[]string{"body"}},
	}
}

// contents is how much every key of the namespace holds: what a refused push must not change.
func contents(s *site.Site, rdb *redis.Client) map[string]int64 {
	s.T.Helper()
	ctx := s.T.Context()
	sizes := map[string]int64{}
	for scan := rdb.Scan(ctx, 0, "*", 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			if scan.Err() != nil || len(sizes) == 0 {
				s.T.Fatalf("%d keys: %v", len(sizes), scan.Err())
			}
			return sizes
		}
		key := scan.Val()
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "hash":
			sizes[key] = rdb.HLen(ctx, key).Val()
		case "zset":
			sizes[key] = rdb.ZCard(ctx, key).Val()
		case "list":
			sizes[key] = rdb.LLen(ctx, key).Val()
		default:
			sizes[key] = 1
		}
	}
}

func TestBadInputIsRefusedByBothDoorsBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Options{Nats: []lab.NATSOption{lab.NATSConfig(fmt.Sprintf("max_payload: %d", maxPayload))}})
	a := s.Start("a")
	h := site.NewHistory(s.Ns)
	s.Consume(h)
	rdb := s.Client()
	// One message is kept, so that there is a state to spoil.
	first := s.Push(a, map[string]any{"topic": "bells.kept", "delay": "3653d", "id": "taken", "body": "the first"})
	if year := first.Due.Year(); year < time.Now().Year()+9 {
		t.Errorf("ten years from now is %s", first.Due)
	}
	before := contents(s, rdb)

	for _, b := range badPushes(s.Ns) {
		answer, err := a.Call(t.Context(), http.MethodPost, "/v1/messages", b.json)
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		status := http.StatusBadRequest
		if b.word == "too_large" {
			status = http.StatusRequestEntityTooLarge
		}
		if answer.Status != status || !strings.HasPrefix(answer.Error, b.word) {
			t.Errorf("%s: %d %.300s, want %d %s", b.name, answer.Status, answer.Raw, status, b.word)
		}
		says(t, b, answer.Detail)
	}
	// A good push with the name of another message.
	answer := s.Must(a, http.MethodPost, "/v1/messages",
		map[string]any{"topic": "bells.kept", "delay": "1s", "id": "taken", "body": "another"})
	if answer.Status != http.StatusConflict ||
		answer.Error != "duplicate_id" || answer.UID != first.UID {
		t.Errorf("a name that is taken: %d %s", answer.Status, answer.Raw)
	}
	batch := s.Must(a, http.MethodPost, "/v1/messages/batch",
		`{"messages":[{"topic":"bells.*","delay":"1s"},{"topic":"bells.a","delay":"-1s"}]}`)
	if len(batch.Results) != 2 || batch.Results[0].Error != "invalid_topic" ||
		batch.Results[1].Error != "invalid_delay" {
		t.Errorf("a batch: %d %s", batch.Status, batch.Raw)
	}
	many := `{"messages":[` + strings.Repeat(`{"topic":"bells.a","delay":"1s"},`, 1000) +
		`{"topic":"bells.a","delay":"1s"}]}`
	if answer := s.Must(a, http.MethodPost, "/v1/messages/batch", many); answer.Status/100 != 4 ||
		!strings.Contains(answer.Detail, "1000") {
		t.Errorf("1001 in a batch: %d %s", answer.Status, answer.Raw)
	}
	if after := contents(s, rdb); !maps.Equal(before, after) {
		t.Errorf("refused over http, and redis holds %v, before %v", after, before)
	}

	badByTag(s, badPushes(s.Ns))
	if after := contents(s, rdb); !maps.Equal(before, after) {
		t.Errorf("refused by tag, and redis holds %v, before %v", after, before)
	}
	if _, n := h.Counts(); n > 0 {
		t.Errorf("%d messages were delivered", n)
	}
	largestBodies(s, a, h)
	pastMeansNow(s, a, h)
	rejectIsPushedAgain(s, a)
}

func says(t *testing.T, b bad, text string) {
	t.Helper()
	for _, word := range b.says {
		if !strings.Contains(text, word) {
			t.Errorf("%s: it does not say %q: %.300s", b.name, word, text)
		}
	}
	if len(text) > 400 {
		t.Errorf("%s: the answer repeats what was sent: %d bytes", b.name, len(text))
	}
}

// badByTag publishes all that can be to the intake, and finds each among the rejects, with its reason, subject and
// body.
func badByTag(s *site.Site, all []bad) {
	s.T.Helper()
	ctx, stop := context.WithTimeout(s.T.Context(), site.Patience)
	defer stop()
	js := site.OpenJetStream(s.T, s.Connect("careless producer"))
	wanted := map[string]bad{}
	for _, b := range all {
		if b.headers == nil || b.subject == "" {
			continue
		}
		body := site.BodyMarker + b.name
		if _, err := js.PublishMsg(
			ctx, &nats.Msg{Subject: "delayed." + b.subject, Header: b.headers, Data: []byte(body)}); err != nil {
			s.T.Errorf("%s: %v", b.name, err)
			continue
		}
		wanted[body] = b
	}
	taken := bad{name: "a name that is taken", subject: "bells.kept", word: "duplicate_id",
		headers: nats.Header{"Tarry-Delay": {"1s"}, "Tarry-Id": {"taken"}}}
	if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "delayed." + taken.subject, Header: taken.headers,
		Data: []byte(site.BodyMarker + taken.name)}); err != nil {
		s.T.Fatal(err)
	}
	wanted[site.BodyMarker+taken.name] = taken
	if len(wanted) < 25 {
		s.T.Fatalf("only %d bad pushes go by tag", len(wanted))
	}
	rejects, err := js.OrderedConsumer(ctx, "TARRY_REJECTED_"+s.Ns, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.T.Fatal(err)
	}
	for len(wanted) > 0 {
		m, err := rejects.Next(jetstream.FetchMaxWait(site.Patience))
		if err != nil {
			s.T.Fatalf("%d are not among the rejects, as %v: %v", len(wanted), slices.Sorted(maps.Keys(wanted)), err)
		}
		b, ok := wanted[string(m.Data())]
		if !ok {
			s.T.Errorf("a reject that is none: %s %v", site.Quoted(m.Data()), m.Headers())
			continue
		}
		delete(wanted, string(m.Data()))
		reason := m.Headers().Get("Tarry-Reason")
		if !strings.HasPrefix(reason, b.word) || m.Headers().Get("Tarry-Subject") != "delayed."+b.subject {
			s.T.Errorf("%s: reason %q, subject %q", b.name, reason, m.Headers().Get("Tarry-Subject"))
		}
		says(s.T, b, reason)
	}
	s.Taken(js) // and the intake holds nothing back
}

// rejectIsPushedAgain finds an acknowledged push that was refused by its topic and id alone, and pushes it under a new
// name.
func rejectIsPushedAgain(s *site.Site, a *site.Instance) {
	s.T.Helper()
	var page struct {
		Rejects []struct {
			Sequence   uint64
			ID, Reason string
		}
	}
	find := func() string {
		found := s.Must(a, http.MethodGet, "/v1/rejects?topic=bells.*&id=taken&limit=1000", nil)
		page.Rejects = nil
		if err := json.Unmarshal([]byte(found.Raw), &page); err != nil {
			s.T.Fatalf("%s: %v", found.Raw, err)
		}
		return found.Raw
	}
	if raw := find(); len(page.Rejects) != 1 || page.Rejects[0].Reason != "duplicate_id" {
		s.T.Fatalf("got %s", raw)
	}
	order := map[string]any{"sequence": page.Rejects[0].Sequence,
		"set": map[string]string{"Tarry-Id": "free", "Tarry-Delay": "1h"}}
	if again := s.Must(a, http.MethodPost, "/v1/rejects/requeue", order); again.Status != http.StatusOK ||
		again.ID != "free" || again.State != "waiting" {
		s.T.Errorf("got %d %s", again.Status, again.Raw)
	}
	if kept := s.Must(a, http.MethodGet, "/v1/messages/free", nil); kept.Status != http.StatusOK ||
		!strings.Contains(kept.Raw, site.BodyMarker+"a name that is taken") {
		s.T.Errorf("got %d %s", kept.Status, kept.Raw)
	}
	if raw := find(); len(page.Rejects) != 0 {
		s.T.Errorf("what was pushed again is still there: %s", raw)
	}
}

// largestBodies finds the limit in the refusal of a body at max_payload: a body that just fits must arrive, one byte
// more is refused before it is kept.
func largestBodies(s *site.Site, a *site.Instance, h *site.History) {
	s.T.Helper()
	push := func(size int, seq int) site.Answer {
		return s.Must(a, http.MethodPost, "/v1/messages", map[string]any{
			"topic":   "jobs.large",
			"delay":   "1ms",
			"headers": map[string]string{site.SeqHeader: strconv.Itoa(seq)},
			"body":    strings.Repeat("b", size),
		})
	}
	refused := push(maxPayload, 1)
	if refused.Status != http.StatusRequestEntityTooLarge || refused.Error != "too_large" {
		s.T.Errorf("a body of max_payload: %d %s", refused.Status, refused.Raw)
	}
	numbers := regexp.MustCompile(`\d+`).FindAllString(refused.Detail, -1)
	if len(numbers) == 0 || !strings.Contains(refused.Detail, "body") {
		s.T.Fatalf("the refusal names no limit: %s", refused.Detail)
	}
	// The largest body that is taken, by halves.
	low, high := maxPayload/2, maxPayload
	if kept := push(low, 1); kept.Status != http.StatusCreated {
		s.T.Fatalf("a body of %d: %d %s", low, kept.Status, kept.Raw)
	}
	taken := 1
	for high-low > 1 {
		middle := (low + high) / 2
		if push(middle, 1).Status == http.StatusCreated {
			low = middle
			taken++
		} else {
			high = middle
		}
	}
	if low < maxPayload-8<<10 {
		s.T.Errorf("the largest body taken is %d, far below max_payload, %d", low, maxPayload)
	}
	lab.Eventually(s.T, site.Patience, func() error {
		if _, n := h.Counts(); n < taken {
			return fmt.Errorf("%d of %d large messages arrived", n, taken)
		}
		return nil
	})
	largest := 0
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, x := range h.Arrivals {
		largest = max(largest, len(x.Body))
	}
	if largest != low {
		s.T.Errorf("the largest body that arrived is %d, the largest taken %d", largest, low)
	}
	s.T.Logf("max_payload %d: the largest body is %d", maxPayload, low)
}

func pastMeansNow(s *site.Site, a *site.Instance, h *site.History) {
	s.T.Helper()
	s.Push(a, map[string]any{"topic": "bells.past", "at": "1999-12-31T23:59:59Z", "body": "late"})
	lab.Eventually(s.T, 10*time.Second, func() error {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		if !slices.ContainsFunc(h.Arrivals, func(x site.Arrival) bool { return x.Subject == "bells.past" }) {
			return errors.New("a message of the past has not arrived")
		}
		return nil
	})
}
