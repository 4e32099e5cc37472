package wire_test

import (
	"errors"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tarry-mq/tarry/bridge/wire"
)

func FuzzCheckSubject(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(strings.TrimPrefix(v.Subject, "delayed."))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if err := wire.CheckSubject(s); err != nil {
			mustBeRefusal(t, err, wire.WordTopic)
			return
		}
		if !server.IsValidSubject(s) || !server.IsValidLiteralSubject(s) || !server.IsValidPublishSubject(s) {
			t.Fatalf("%q is accepted here and refused by nats-server", s)
		}
		if len(s) > wire.MaxSubject || !utf8.ValidString(s) || strings.ContainsAny(s, " \t\r\n\x00*>") {
			t.Fatalf("%q should be refused", s)
		}
		if !wire.Covers(s, s) || !wire.Covers(">", s) {
			t.Fatalf("%q does not match itself", s)
		}
	})
}

func FuzzParseDelay(f *testing.F) {
	for _, s := range []string{"20m", "1d12h", "1500", "0", "3653d", "3653d1ns", "-1s", "1.5d", ".5s", "5.", "1h1h",
		"µs", "1µs", "1e9", "NaN", "99999999999999999999h", "0.000001ms", "+0", "+1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := wire.ParseDelay(s)
		if err != nil {
			mustBeRefusal(t, err, wire.WordDelay)
			if std, stdErr := time.ParseDuration(s); stdErr == nil && std >= 0 && std <= wire.MaxDelay &&
				len(s) <= 64 && s[0] != '-' && s != "+0" {
				t.Fatalf("%q is a Go duration within the limits: %v", s, err)
			}
			return
		}
		if d < 0 || d > wire.MaxDelay || d%time.Millisecond != 0 {
			t.Fatalf("%q gives %v", s, d)
		}
		if std, err := time.ParseDuration(s); err == nil && (d < std || d-std >= time.Millisecond) && s != "0" {
			t.Fatalf("%q gives %v, Go reads %v", s, d, std)
		}
		if ms, ok := new(big.Int).SetString(s, 10); ok && ms.Int64() != d.Milliseconds() {
			t.Fatalf("%q gives %v", s, d)
		}
		if again, err := wire.ParseDelay(d.String()); err != nil || again != d {
			t.Fatalf("%q gives %v, which reads as %v, %v", s, d, again, err)
		}
	})
}

func FuzzParseAt(f *testing.F) {
	for _, v := range vectors(f) {
		for _, at := range v.Headers["Tarry-At"] {
			f.Add(at)
		}
	}
	for _, s := range []string{"0000-01-01T00:00:00+23:59", "9998-12-31T23:59:59.9999999Z", "2030-01-31t08:00:00z",
		"2030-01-31T08:00:60Z", "2030-01-31T8:00:00Z", "2030-01-31T08:00:00,5Z", "2030-01-31T08:00:00+24:00",
		"2030-01-31T08:00:00+02:60", "2030-01-31T08:00:00-23:59"} {
		f.Add(s)
	}
	rfc3339 := regexp.MustCompile(
		`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	f.Fuzz(func(t *testing.T, s string) {
		at, err := wire.ParseAt(s)
		if std, no := time.Parse(time.RFC3339Nano, strings.ToUpper(s)); err != nil && no == nil && rfc3339.MatchString(s) &&
			std.UnixMilli() >= wire.SecondsBelow && std.UTC().Year() < 9998 && len(s) <= 64 {
			t.Fatalf("%q is a time of RFC 3339: %v", s, err)
		}
		if err != nil {
			mustBeRefusal(t, err, wire.WordAt)
			return
		}
		if strings.Trim(s, "0123456789") != "" && !rfc3339.MatchString(s) {
			t.Fatalf("%q is none of RFC 3339, and gives %v", s, at)
		}
		if at.Location() != time.UTC || at.Nanosecond()%int(time.Millisecond) != 0 || at.Year() < 0 ||
			at.Year() > 9998 {
			t.Fatalf("%q gives %v", s, at)
		}
		if std, err := time.Parse(time.RFC3339Nano, s); err == nil &&
			(at.Before(std) || at.Sub(std) >= time.Millisecond) {
			t.Fatalf("%q gives %v, Go reads %v", s, at, std)
		}
		if again, err := wire.ParseAt(wire.FormatAt(at)); err != nil || !again.Equal(at) {
			t.Fatalf("%q gives %v, which reads as %v, %v", s, at, again, err)
		}
	})
}

// FuzzParseRetry: what is read is written in one form, which reads as the same and is written as itself.
func FuzzParseRetry(f *testing.F) {
	for _, v := range vectors(f) {
		for _, s := range v.Headers["Tarry-Retry"] {
			f.Add(s)
		}
	}
	for _, s := range []string{"1m*2*3", "1m~", "~5%", "exp(1,1,1)", "exp(1ms,3653d,100)~50%", "exp(1s,1h,3", "0*100",
		"1m*999999999999", "1m~5%~5%", "\t1m , 2m\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := wire.ParseRetry(s)
		if err != nil {
			mustBeRefusal(t, err, wire.WordRetry)
			return
		}
		if r.Empty() || len(r.Delays) > wire.MaxRetries || r.Jitter > wire.MaxJitter {
			t.Fatalf("%q gives %+v", s, r)
		}
		for _, d := range r.Delays {
			if d < 0 || d > wire.MaxDelay || d%time.Millisecond != 0 {
				t.Fatalf("%q gives %v", s, d)
			}
		}
		text := r.String()
		again, err := wire.ParseRetry(text)
		if err != nil || !reflect.DeepEqual(again, r) || again.String() != text {
			t.Fatalf("%q is written %q, which reads as %+v, %v", s, text, again, err)
		}
	})
}

func FuzzCleanReason(f *testing.F) {
	for _, s := range []string{"", " x ", "a\nb", strings.Repeat("é", 200), strings.Repeat(" ", 300) + "x", "\xff\xfe",
		"a\u0085b", "\u00a0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := wire.CleanReason(s)
		if len(got) > wire.MaxReason || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) ||
			strings.TrimSpace(got) != got || wire.CleanReason(got) != got {
			t.Fatalf("%q gives %q", s, got)
		}
	})
}

// FuzzCheckPattern: a pattern is what becomes a subject when its wildcards are filled in, and then it matches.
func FuzzCheckPattern(f *testing.F) {
	for _, s := range []string{"a.*", "a.>", ">", "*", "*.*.>", "a.>.b", "a*", ">a", "", "a..b", "$a", "_INBOX.>", "*.",
		strings.Repeat("*.", 128) + "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if err := wire.CheckPattern(s); err != nil {
			mustBeRefusal(t, err, wire.WordTopic)
			if wire.CheckSubject(s) == nil {
				t.Fatalf("%q is a subject: %v", s, err)
			}
			return
		}
		if !server.IsValidSubject(s) || len(s) > wire.MaxSubject {
			t.Fatalf("%q is accepted here and refused by nats-server", s)
		}
		tokens := strings.Split(s, ".")
		for i, one := range tokens {
			if one == "*" || one == ">" {
				tokens[i] = "x"
			}
		}
		if subject := strings.Join(tokens, "."); !wire.Covers(s, subject) || wire.CheckSubject(subject) != nil {
			t.Fatalf("%q does not match %q", s, subject)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, v := range vectors(f) {
		var lines []string
		for name, values := range v.Headers {
			for _, value := range values {
				lines = append(lines, name+": "+value)
			}
		}
		f.Add(v.Subject, strings.Join(lines, "\n"), len(v.Body))
	}
	f.Fuzz(func(t *testing.T, subject, block string, body int) {
		h := map[string][]string{}
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			h[name] = append(h[name], value)
		}
		before := maps.Clone(h)
		p, err := wire.Decode(subject, "delayed", h, body)
		if !reflect.DeepEqual(h, before) {
			t.Fatal("Decode changed its argument")
		}
		if err != nil {
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Word == "" || refused.Field == "" || refused.Detail == "" ||
				!utf8.ValidString(err.Error()) {
				t.Fatalf("%#v is not a complete refusal", err)
			}
			if _, again := wire.Decode(subject, "delayed", h, body); again.Error() != err.Error() {
				t.Fatalf("first %v, then %v", err, again)
			}
			return
		}
		if err := p.Check("delayed"); err != nil {
			t.Fatalf("Decode accepts what Check refuses: %v", err)
		}
		s, out := wire.Encode(p, "delayed")
		again, err := wire.Decode(s, "delayed", out, body)
		if err != nil || s != subject || !reflect.DeepEqual(again, p) {
			t.Fatalf("%+v encodes to %q %v and reads as %+v, %v", p, s, out, again, err)
		}
		if again.Options() != p.Options() {
			t.Fatalf("a round trip changes the options: %q, then %q", p.Options(), again.Options())
		}
	})
}

func mustBeRefusal(t *testing.T, err error, word string) {
	t.Helper()
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Word != word || refused.Detail == "" {
		t.Fatalf("got %#v, want a refusal %s", err, word)
	}
}
