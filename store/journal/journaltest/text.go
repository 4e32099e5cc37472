package journaltest

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// everyByte holds every byte value.
var everyByte = func() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}()

// names are ids and keys that are easily confused with each other, or with a part of a statement.
var names = []string{
	"a", "a ", "a  ", " a", "A", "ä", "a\u0308", "á", "a\x00", "a\t", "ß", "ss", "%", "a%", "a_", "_", "?", "'", "''",
	`"`, "`", `\`, `\\`, `\'`, `'; DROP TABLE messages; --`,
	"x'00'", "NULL", "0", "00", "0x30", "🕰️", "👩‍👩‍👧", "\u00a0", "\u200b", "\ufffd", "\U0010ffff",
	strings.Repeat("k", 255), strings.Repeat("k", 254) + "l", strings.Repeat("é", 127),
}

var textPromises = []promise{
	{"ids and keys are found exactly, and nothing that looks like them", func(t *trial) {
		var changes []record.Change
		byID, byKey := map[string]*message.Message{}, map[string]*message.Message{}
		for i, text := range names {
			byID[text], byKey[text] = newMessage(2*i, id(text)), newMessage(2*i+1, key(text), id("of a key"))
			changes = append(changes, accepted(byID[text], byKey[text])...)
		}
		t.write(changes...)
		for _, text := range names {
			t.wantUIDs(t.find(scheduler.Ref{ID: text}), byID[text])
			t.wantUIDs(t.find(scheduler.Ref{ID: text, Keyed: true}), byID[text])
			t.wantUIDs(t.find(scheduler.Ref{ID: "of a key", Key: text, Keyed: true}), byKey[text])
			t.wantUIDs(t.list(record.RecordQuery{Key: text, Limit: 9}), byKey[text])
			t.wantRecords(t.records(byID[text].UID, byKey[text].UID), recorded(accept(byID[text])),
				recorded(accept(byKey[text])))
		}
	}},
	{"topics are distinguished exactly", func(t *trial) {
		topics := []string{"orders", "Orders", "orders.a", "örders", "o\u0308rders", "orders.*", "_rders", "🕰️.tick",
			strings.Repeat("t", 255)}
		for i, text := range topics {
			t.write(accept(newMessage(i, topic(text))))
		}
		for i, text := range topics {
			t.wantUIDs(t.list(record.RecordQuery{Topic: text, Limit: 9}), newMessage(i, topic(text)))
			got, err := t.j.Forecast(t.Context(),
				record.ForecastQuery{Topic: text, From: start, Until: start + 1, Step: 1})
			if t.must("forecast", err); len(got) != 1 || got[0].Count != 1 {
				t.Fatalf("%q: forecast %v, want 1", text, got)
			}
		}
	}},
	{"bodies and headers may be any bytes", func(t *trial) {
		for i, content := range [][]byte{everyByte, {0}, {'\''}, {'\\'}, []byte("\\'"), []byte("_binary'x'"),
			[]byte("\xff\xfe"), bytes.Repeat([]byte("\\\x00'\n\r\x1a\""), 1000)} {
			m := newMessage(i, body(content))
			m.Headers = []message.Header{{Name: string(content), Value: string(content)}, {},
				{Name: "a", Value: string(content)}}
			t.write(accept(m))
			t.wantRecords(t.records(m.UID), recorded(accept(m)))
		}
	}},
	{"no reason, instance, address or stream is refused", func(t *trial) {
		for i, text := range append([]string{string(everyByte), "\xf0\x9f", "\xed\xa0\x80",
			strings.Repeat("long ", 10_000), strings.Repeat("🕰", 5000), strings.Repeat("\xff", 5000)}, names...) {
			m := newMessage(i)
			end := became(m, 2, message.StateDead, start)
			end.Reason, end.Instance, end.Address, end.Stream = text, text, text, text
			t.write(accept(m), end)
			r, changes := t.records(m.UID), t.history(m.UID)
			if len(r) != 1 || len(changes) != 2 {
				t.Fatalf("%q: %d records, %d changes", text, len(r), len(changes))
			}
			c := changes[1]
			for _, got := range []struct {
				what, text string
				least      int
			}{{"reason of the message", r[0].Reason, 1000}, {"reason", c.Reason, 1000}, {"instance", c.Instance, 250},
				{"address", c.Address, 250}, {"stream", c.Stream, 250}} {
				if wrong := mangled(got.text, text, got.least); wrong != "" {
					t.Fatalf("%s: %s", got.what, wrong)
				}
			}
		}
	}},
}

// mangled returns what is wrong with a text that may be truncated and repaired, or "".
func mangled(got, sent string, least int) string {
	if utf8.ValidString(sent) {
		if !strings.HasPrefix(sent, got) || len(got) < min(len(sent), least) {
			return fmt.Sprintf("got %.60q, want what %.60q begins with", got, sent)
		}
		return ""
	}
	valid, _, _ := strings.Cut(strings.ToValidUTF8(sent, "\x00\x00"), "\x00\x00")
	if !strings.HasPrefix(got, valid[:min(len(valid), least)]) {
		return fmt.Sprintf("got %.60q, want what is valid of %.60q", got, sent)
	}
	return ""
}
