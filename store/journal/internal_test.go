package journal

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func TestCheckVersion_WantsWhatStatementsWereWrittenFor(t *testing.T) {
	t.Parallel()
	for version, fit := range map[string]bool{
		"8.0.43":                     true,
		"8.4.6-log":                  true,
		"9.5.0":                      true,
		"8.0.43-0ubuntu0.22.04.1":    true,
		"10.11.14-MariaDB-0+deb12u2": true,
		"10.5.0-MariaDB":             true,
		"12.1.2-MariaDB-ubu2404":     true,
		"5.7.44-log":                 false,
		"10.4.34-MariaDB-log":        false,
		"5.5.68-MariaDB":             false,
		"":                           false,
		"unknown":                    false,
	} {
		if err := checkVersion(version); (err == nil) != fit || err != nil && !errors.Is(err, ErrUnfit) {
			t.Errorf("%q: got %v, want fit %v", version, err, fit)
		}
	}
}

// A virtual machine that is set back to a snapshot keeps its Redis's run, and the outbox shows that it went back.
func TestRecovery_NoticesADataSetThatWentBack(t *testing.T) {
	t.Parallel()
	r := NewRecovery(RecoveryConfig{})
	for i, step := range []struct {
		run  string
		last message.Milli
		back bool
	}{
		{"a", 0, false}, {"a", 5, false}, {"a", 5, false}, {"a", 9, false}, {"a", 7, true}, {"a", 8, true}, {"a", 9, false},
		{"b", 3, false}, {"b", 2, true}, {"b", 0, false}, // nothing is known
	} {
		if back := r.wentBack(0, &record.Standing{Now: step.run, Last: step.last}); back != step.back {
			t.Errorf("step %d: %v", i, back)
		}
	}
}

func TestText_IsValidAndFitsItsColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"🕰", 3, ""},
		{"a\xffb", 10, "a\ufffdb"}, {"\xff\xff", 3, "\ufffd"}, {"a\xff", 2, "a"},
	} {
		if got := text(c.in, c.limit); got != c.want {
			t.Errorf("%q in %d bytes: got %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\xff🕰", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit&0xffff, 0)
		got := text(s, limit)
		if !utf8.ValidString(got) || len(got) > limit {
			t.Fatalf("%q in %d bytes gives %q", s, limit, got)
		}
		if utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
}

func FuzzUnpackHeaders(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{headersForm})
	f.Add(packHeaders(
		[]message.Header{{Name: "A", Value: "1"}, {}, {Name: "\xff\x00", Value: strings.Repeat("x", 300)}}))
	f.Add([]byte{headersForm, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{headersForm, 0x80})
	f.Add([]byte{headersForm, 1, 'a'})
	f.Fuzz(func(t *testing.T, packed []byte) {
		headers, err := unpackHeaders(packed)
		if err != nil {
			if !errors.Is(err, errHeaders) || headers != nil {
				t.Fatalf("got %v and %v", headers, err)
			}
			return
		}
		again := packHeaders(headers)
		if len(again) > packedBytes(headers) {
			t.Fatalf("%d bytes, and no more than %d were said", len(again), packedBytes(headers))
		}
		if back, err := unpackHeaders(again); err != nil || !reflect.DeepEqual(back, headers) {
			t.Fatalf("%v came back as %v, %v", headers, back, err)
		}
	})
}

// A new state needs a migration that adds its word for people.
func TestStates_HaveTheirWordsInTheDatabase(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(),
		Config{DSN: sqliteScheme + t.TempDir() + "/journal.db", Namespace: "test", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	words := map[message.State]string{}
	err = each(t.Context(), s.read, "SELECT number, word FROM states", nil, func(row scanner) error {
		var state message.State
		var word string
		err := row.Scan(&state, &word)
		words[state] = word
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range append(message.States(), message.StateNone) {
		if words[state] != state.String() {
			t.Errorf("state %d is %q in the database, want %q", state, words[state], state)
		}
	}
}

// The database alone judges every pattern but those with a name after a * and a > at the end: only of these it streams
// a count for each topic.
func TestForecast_LetsTheDatabaseMatch(t *testing.T) {
	t.Parallel()
	s := &SQL{kind: &dialect{like: "LIKE ?", any: "%", literal: func(token string) string { return token }}}
	for pattern, want := range map[string]string{
		">": "% 0 true", "a.>": "a.% 1 true", "a.b": "a.b 1 true", "*": "% 0 true", "a.*.b": "a.%.b 2 true",
		"*.b.*": "%.b.% 2 true", "*.>": "%.% 1 true", "a.*.*.>": "a.%.%.% 3 true", ">.a": ">.a 1 true",
		"*.b.>": "%.b.% 2 false", "a.*.c.*.>": "a.%.c.%.% 4 false",
	} {
		w, exact := s.andPattern(where{}, pattern)
		if got := fmt.Sprint(w.args[0], " ", w.args[1], " ", exact); got != want {
			t.Errorf("%q becomes %q, want %q", pattern, got, want)
		}
	}
}

// A full disk is known by the database's error, and by what a look made of it.
func TestWriter_SaysThatTheDiskIsFull(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		broken error
		full   bool
	}{
		{nil, false},
		{&mysql.MySQLError{Number: 1114}, true},
		{fmt.Errorf("write: %w", &mysql.MySQLError{Number: 1030, Message: "error 28 \"No space left on device\""}), true},
		{&mysql.MySQLError{Number: 1040}, false},
		{errDiskFull, true},
	} {
		for _, mode := range []Mode{Sync, Async} {
			w := &Writer{cfg: WriterConfig{Mode: mode}, broken: c.broken}
			if err := w.Full(); errors.Is(err, scheduler.ErrDiskFull) != c.full {
				t.Errorf("%v: full: %v", c.broken, err)
			}
			if err := w.Ready(); errors.Is(err, scheduler.ErrDiskFull) != (c.full && mode == Sync) {
				t.Errorf("%v: ready: %v", c.broken, err)
			}
		}
	}
}
