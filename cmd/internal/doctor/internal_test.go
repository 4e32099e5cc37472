package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A command that a script begins to use is one that a user must be let to call.
func TestNeeded_HasEveryCommandOfTheScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../store/timeline/lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	known := map[string]bool{}
	for _, command := range needed() {
		known[command[0].(string)] = true
	}
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, more, _ := strings.Cut(string(page), "For `tarry rebucket` the user also needs\n`")
	more, _, _ = strings.Cut(more, "`")
	for right := range strings.FieldsSeq(more) {
		known[strings.ToUpper(strings.TrimPrefix(right, "+"))] = true
	}
	call := regexp.MustCompile(`redis\.p?call\(\s*'(\w+)'`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if !known[strings.ToUpper(m[1])] {
				t.Errorf("%s calls %s, which the doctor does not check; add it to needed", filepath.Base(file), m[1])
			}
		}
	}
}

// What is granted is what is used: the other way round, and the page that has it for operators.
func TestNeeded_IsNoMoreThanTarryUses(t *testing.T) {
	t.Parallel()
	used := map[string]bool{"CLIENT": true, "EVAL": true, "EVALSHA": true, "SELECT": true} // go-redis calls them itself
	call := regexp.MustCompile(`redis\.p?call\(\s*'(\w+)'`)
	method := regexp.MustCompile(`\b(?:rdb|pipe)\.([A-Z]\w+)\b`)
	for _, pattern := range []string{"../../../store/timeline/lua/*.lua", "../../../store/timeline/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			calls := call.FindAllStringSubmatch(string(text), -1)
			for _, m := range append(calls, method.FindAllStringSubmatch(string(text), -1)...) {
				if !strings.HasSuffix(file, "_test.go") {
					used[strings.ToUpper(m[1])] = true
				}
			}
		}
	}
	for _, command := range needed() {
		if !used[command[0].(string)] {
			t.Errorf("%s is granted and nobody uses it", command[0])
		}
	}
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(rightsChange("tarry", "default"), " ~", " reset on >SECRET ~", 1)
	if !strings.Contains(string(page), "\n```\n"+want+"\n```\n") {
		t.Errorf("docs/access.md lacks this user of Redis: %s", want)
	}
}

func TestClocks_AreComparedWithEachOtherAndHere(t *testing.T) {
	t.Parallel()
	at := func(source string, ahead, unsure time.Duration) reading { return reading{source, ahead, unsure} }
	ms := time.Millisecond
	for _, c := range []struct {
		clocks []reading
		want   Status
		words  string
	}{
		{nil, Unknown, "no server"},
		{[]reading{at("redis a", 2*ms, ms)}, OK, "fewer than three"},
		{[]reading{at("redis a", 2*ms, ms), at("nats", -200*ms, ms)}, OK, "nats -200 ms"},
		{[]reading{at("redis a", 200*ms, ms), at("nats", -200*ms, ms)}, Warn,
			"nats and redis a differ by at least 398ms"},
		{[]reading{at("redis a", 400*ms, 300*ms), at("journal", 0, ms)}, OK, "redis a +400"}, // too inexact to warn
		{[]reading{at("redis a", 400*ms, 300*ms), at("redis a", 300*ms, ms)}, Warn, "this machine and redis a"},
		{[]reading{at("redis a", -time.Hour, ms), at("journal", 0, ms)}, Fail, "differ by"},
	} {
		n := &notes{group: "machine", hide: strings.ToLower}
		new(patient).clocks(n, c.clocks)
		if len(n.checks) != 1 || n.checks[0].Status != c.want || !strings.Contains(n.checks[0].Found, c.words) {
			t.Errorf("%v: got %+v, want %s with %q", c.clocks, n.checks, c.want, c.words)
		}
	}
}

func TestText_CannotSteerATerminalOrBreakALine(t *testing.T) {
	t.Parallel()
	n := &notes{group: "redis", hide: strings.NewReplacer().Replace}
	n.warn("a", "one\x1b[2J\r\ntwo\xff", "do\nthis")
	text := Report{n.checks}.Text()
	if strings.ContainsAny(text, "\x1b\r") || strings.Count(text, "\n") != 5 {
		t.Errorf("got %q", text)
	}
}
