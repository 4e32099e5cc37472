package config

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestMarkdownHasEverySettingOfEveryCommand(t *testing.T) {
	t.Parallel()
	table := Markdown()
	for _, s := range settings() {
		row := "| `" + s.name + "` | `" + s.env() + "` | "
		if got := strings.Count(table, row); got != len(s.commands()) {
			t.Errorf("%s: got %d rows, want %d", s.name, got, len(s.commands()))
		}
	}
	for _, q := range sequences() {
		for _, s := range q.rows {
			if !strings.Contains(table, "\n| `"+s.name+"` | ") {
				t.Errorf("%s[].%s is not in it", q.name, s.name)
			}
		}
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "|") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 6 {
			t.Errorf("not five cells: %s", line)
		}
	}
}

// The tables stand in docs/settings.md between two marks.
func TestMarkdownStandsInTheDocs(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "settings.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, started := strings.Cut(string(content), MarkdownStart)
	inside, after, ended := strings.Cut(rest, MarkdownEnd)
	if !started || !ended {
		t.Fatalf("%s lacks %s or %s", path, MarkdownStart, MarkdownEnd)
	}
	want := "\n" + Markdown()
	if inside == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./cmd/internal/config -run Markdown -update", path)
	}
	if err := os.WriteFile(path, []byte(before+MarkdownStart+want+MarkdownEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheSampleLoadsToTheDefaultsCommentedAndNot(t *testing.T) {
	t.Parallel()
	want, err := LoadServe(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	sample := Sample()
	got, err := LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, sample)})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("as it is: got %v, %v", got, err)
	}
	for _, s := range settings() {
		parts := strings.Split(s.name, ".")
		if line := "\n" + strings.Repeat("  ", len(parts)-1) + "# " + parts[len(parts)-1] + ": "; s.of&serve != 0 &&
			!strings.Contains(sample, line) {
			t.Errorf("the sample lacks %q", line)
		}
	}
	// The examples of lists load as they stand, but for the hash, which nobody should copy.
	examples := strings.ReplaceAll(regexp.MustCompile(`(?m)^( *)## (( *- | +)[a-z0-9_]+: |[a-z]+:$)`).ReplaceAllString(
		sample, "$1$2"), "64 hex digits", HashToken("x"))
	s, err := LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, examples)})
	if err != nil || len(s.HTTP.Tokens) != 1 || len(s.Topics) != 2 {
		t.Errorf("with its examples: got %v, %v\n%s", s, err, examples)
	}
	live := regexp.MustCompile(`(?m)^( *)# ([a-z_]+: )`).ReplaceAllString(sample, "$1$2")
	live = regexp.MustCompile(`(?m)^.*: \.\.\.$`).ReplaceAllString(live, "")
	got, err = LoadServe(nil, []string{"TARRY_CONFIG=" + write(t, live)})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("uncommented: got %v, %v\n%s", got, err, live)
	}
}

func TestTheAdvertisedAddressIsOneThatOthersCanUse(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 7070} }
	for _, c := range []struct {
		set  string
		addr net.Addr
		want string
	}{
		{"a.example:1", at("127.0.0.1"), "a.example:1"},
		{"", at("127.0.0.1"), "127.0.0.1:7070"},
		{"", at("::1"), "[::1]:7070"},
		{"", at("0.0.0.0"), host + ":7070"},
		{"", at("::"), host + ":7070"},
		{"", &net.TCPAddr{Port: 7070}, host + ":7070"},
		{"", &net.UnixAddr{Name: "/run/x", Net: "unix"}, "/run/x"},
	} {
		if got := (Serve{Peer: Peer{Advertise: c.set}}).Advertised(c.addr.String()); got != c.want {
			t.Errorf("%q, %v: got %s, want %s", c.set, c.addr, got, c.want)
		}
	}
}

func TestJournal_HasThePasswordThatTheDriverReads(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"me:p@ss/word:x@tcp(h:3306)/db?a=b": "p@ss/word:x",
		"me@tcp(h)/db":                      "",
		"me:@tcp(h)/db":                     "",
		"sqlite:/a/b@c":                     "",
		"/db":                               "",
		"":                                  "",
	} {
		j := Journal{DSN: Secret(dsn)}
		if got := j.Password(); got != want {
			t.Errorf("%s: got %q, want %q", dsn, got, want)
		}
	}
}
