package message

import (
	"testing"
	"unicode/utf8"
)

func TestCause_IsTheSameForReasonsOfOneKind(t *testing.T) {
	for want, reasons := range map[string][]string{
		"HTTP # from crm.internal":    {"HTTP 502 from crm.internal", "HTTP 17 from crm.internal"},
		"no order # of #":             {`no order 7131 of "ann"`, `no order 1 of 'bob 2'`},
		"# is gone":                   {"550e8400-e29b-41d4-a716-446655440000 is gone", "t-0w472j1w8008axqg is gone"},
		"digest # differs":            {"digest deadbeefdead differs", "digest 00000000 differs", "digest 7 differs"},
		"dial tcp #.#.#.#:#: refused": {"dial tcp 10.0.0.1:80: refused", "dial tcp 192.168.1.20:4222: refused"},
		"can't connect, won't retry":  {"can't connect, won't retry"},
		"can't parse #, won't retry":  {"can't parse 'a', won't retry", "can't parse 'b c', won't retry"},
		"it's over":                   {"it's over"},
		"":                            {"", "\xff"},
		"#":                           {"12", `"a"`},
		"added, faded, abcdefg":       {"added, faded, abcdefg"},
	} {
		for _, reason := range reasons {
			if got := causeText(reason); got != want {
				t.Errorf("%q: %q, want %q", reason, got, want)
			}
		}
	}
	one := Info{Message: Message{Topic: "a"}, Reason: "HTTP 502"}
	other, topic, kind := one, one, one
	other.Reason, topic.Topic, kind.Kind = "HTTP 404", "b", KindLapsed
	name, _ := one.Cause()
	for i, same := range map[*Info]bool{&other: true, &topic: false, &kind: false} {
		if got, _ := i.Cause(); (got == name) != same || len(got) != CauseLen {
			t.Errorf("%+v: %q, beside %q", i, got, name)
		}
	}
}

func FuzzCause(f *testing.F) {
	f.Add("HTTP 502 from crm.internal")
	f.Add(`it's "a" 'b`)
	f.Add("x9deadbeef\xff\u202e")
	f.Fuzz(func(t *testing.T, reason string) {
		text := causeText(reason)
		if len(text) > causeBytes || !utf8.ValidString(text) || causeText(text) != text {
			t.Errorf("%q becomes %q, and that %q", reason, text, causeText(text))
		}
	})
}
