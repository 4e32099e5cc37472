package doctor

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/operations.md")

// coded are the checks that are no rules of facts: what they look at, by group and name.
var coded = [][3]string{
	{"redis, nats, zookeeper, journal", "reachable", "each server answers, with the credentials of the settings"},
	{"redis", "rights", "the user may call each command that tarry needs ([access](access.md#a-redis-user))"},
	{"redis", "sentinels agree", "all name one master"},
	{"redis", "sentinels named", "there are at least three"},
	{"redis", "same redis", "it is the one of the instance that leads"},
	{"nats", "jetstream", "the account has it"},
	{"nats", "inbox", "the user receives answers"},
	{"nats", "streams", "the user may list them"},
	{"nats", "subscribe", "the user may, as [access](access.md#nats-users) has it"},
	{"nats", "publish", "the user may, as [access](access.md#nats-users) has it"},
	{"nats", "intake subjects", "no other stream holds them"},
	{"nats", "intake consumer", "it skips nothing of its stream"},
	{"nats", "topics", "streams hold what messages are due on"},
	{"nats", "topic ends", "streams hold the subjects of copies of dead and expired messages"},
	{"nats", "topic partitions", "streams that hold a topic hold its parts"},
	{"zookeeper", "ensemble", "all servers are of one ensemble, of which one may be lost"},
	{"zookeeper", "access", "the ACLs let these credentials elect a leader"},
	{"journal", "privileges", "the user may read and write the tables"},
	{"journal", "password", "it is not the one that a page prints"},
	{"journal", "mode", "there is a journal"},
	{"journal", "file", "SQLite's file can be opened"},
	{"journal", "one machine", "no other machine can run an instance beside a journal in a file"},
	{"journal, data", "writable", "this user may write to the directory and what is in it"},
	{"journal, data", "file system", "the directory is on a local disk"},
	{"data", "directory", "it can be entered"},
	{"data", "nats", "it syncs what it acknowledges"},
	{"machine", "clocks", "they differ by at most 250 ms, and by 1 s at the utmost"},
	{"machine", "http certificate", "it fits its key and is valid for 30 days more"},
	{"machine", "http client authority", "it is valid for 30 days more"},
}

// A rule can be read, and says what to change unless all is well.
func TestRules_CanBeRead(t *testing.T) {
	t.Parallel()
	for _, table := range tables() {
		for _, r := range table.table {
			for term := range strings.FieldsSeq(r.when) {
				if name, operator, _ := cut(term); name == "" || !slices.Contains([]string{"=", "!=", "<", ">"}, operator) {
					t.Errorf("%s %s: %q is no condition", table.group, r.check, term)
				}
			}
			if (r.status == OK) != (r.change == "") || r.found == "" {
				t.Errorf("%s %s %q: %s, found %q, change %q", table.group, r.check, r.when, r.status, r.found, r.change)
			}
		}
	}
}

func TestRules_HoldFactsAgainstValues(t *testing.T) {
	t.Parallel()
	f := facts{"version": "2.10.27-x", "span": "2m0s", "none": "0", "limit": "-1", "many": "12", "word": "no", "of": "7|8"}
	for when, want := range map[string]bool{
		"": true, "version<2.9": false, "version<2.11": true, "version>2.9": true, "span<3m": true, "span>2m0s": false,
		"none>0": false, "limit>0": false, "many>9": true, "missing=": true, "missing>0": false, "word!=": true,
		"word=yes|no": true, "word!=yes|no": false, "many<{many}": false, "many>{none} word=no": true, "many={of}": false,
	} {
		if f.hold(when) != want {
			t.Errorf("%q holds: %t", when, !want)
		}
	}
	if got := f.fill("{word} {missing}{ literal }"); got != "no { literal }" {
		t.Errorf("filled: %q", got)
	}
}

// What a server does not report is no value, and what a rule says fits what it found.
func TestRules_FitWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table         []rule
		facts         facts
		check         string
		want          Status
		says, saysNot string
	}{
		{redisRules, facts{"redis_mode": "cluster", "CONFIG": "open", "means": "cluster"}, "full coverage", Unknown,
			"make sure", ""},
		{redisRules, facts{"redis_mode": "cluster", "CONFIG": "open", "means": "cluster"}, "replicas", Warn,
			"no other server", ""},
		{redisRules, facts{"aof_enabled": "1", "journal.mode": "off"}, "append-only file", OK, "on", ""},
		{sessionRules, facts{"granted": "20s", "zookeeper.session": "30s", "publish.timeout": "2s", "half": "10s"}, "session",
			Fail, "set zookeeper.session to 20s", "lower publish.timeout"},
		{sessionRules, facts{"granted": "2s", "zookeeper.session": "6s", "publish.timeout": "2s", "half": "1s"}, "session",
			Fail, "lower publish.timeout from 2s to 1s", ""},
		{memberRules, facts{"registered": "2", "told": "0"}, "settings", "", "", ""},
		{memberRules, facts{"registered": "2", "told": "1"}, "settings", OK, "1 of 2", ""},
		{memberRules, facts{"registered": "0", "cluster.instances": "2"}, "instances", OK, "", ""},
		{mysqlRules, facts{"read_only": "ON", "super_read_only": "ON"}, "writable", Fail, "super_read_only", ""},
	} {
		n := &notes{hide: strings.ToLower}
		n.apply(c.table, c.facts)
		at := slices.IndexFunc(n.checks, func(one Check) bool { return one.Name == c.check })
		if at < 0 {
			if c.want != "" {
				t.Errorf("%s: no finding, want %s", c.check, c.want)
			}
			continue
		}
		text := n.checks[at].Found + "; " + n.checks[at].Change
		if n.checks[at].Status != c.want || !strings.Contains(text, c.says) || c.saysNot != "" && strings.Contains(text,
			c.saysNot) {
			t.Errorf("%s of %v: %s %q, want %s with %q", c.check, c.facts, n.checks[at].Status, text, c.want, c.says)
		}
	}
}

// Every check that the code adds is in the list of the page, and no other.
func TestRules_AndCodeAreAllOnThePage(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range coded {
		known[c[1]] = false
	}
	for _, table := range tables() {
		for _, r := range table.table {
			known[r.check] = true
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			method, is := call.Fun.(*ast.SelectorExpr)
			if !is {
				return true
			}
			at := map[string]int{"ok": 0, "warn": 0, "fail": 0, "unknown": 0, "broken": 0, "unchecked": 0, "add": 1}
			i, adds := at[method.Sel.Name]
			if !adds || len(call.Args) < 3 && method.Sel.Name != "ok" {
				return true
			}
			name := literal(call.Args[i])
			if ident, is := call.Args[i].(*ast.Ident); is && ident.Obj != nil {
				if spec, is := ident.Obj.Decl.(*ast.ValueSpec); is && len(spec.Values) == 1 {
					name = literal(spec.Values[0])
				}
			}
			if _, is := known[name]; name != "" && !is {
				t.Errorf("%s adds the check %q, which the page does not have: add it to coded", file, name)
			}
			known[name] = true
			return true
		})
	}
	for name, used := range known {
		if !used {
			t.Errorf("nothing adds the check %q", name)
		}
	}
}

func literal(e ast.Expr) string {
	if l, is := e.(*ast.BasicLit); is && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value)
		return text
	}
	return ""
}

const (
	pageStart = "<!-- doctor:start -->"
	pageEnd   = "<!-- doctor:end -->"
)

func TestRules_StandInTheDocs(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "operations.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, started := strings.Cut(string(content), pageStart)
	inside, after, ended := strings.Cut(rest, pageEnd)
	if !started || !ended {
		t.Fatalf("%s lacks %s or %s", path, pageStart, pageEnd)
	}
	want := "\n" + page()
	if inside == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./cmd/internal/doctor -run Docs -update", path)
	}
	if err := os.WriteFile(path, []byte(before+pageStart+want+pageEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// page returns the tables of the page.
func page() string {
	var b strings.Builder
	for _, table := range tables() {
		fmt.Fprintf(&b, "%s, %s:\n\n| check | where | finding | change |\n|---|---|---|---|\n", table.group, table.of)
		for _, r := range table.table {
			where := "else"
			if r.when != "" {
				where = "`" + strings.Join(strings.Fields(r.when), "` `") + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | **%s** %s | %s |\n", r.check, strings.ReplaceAll(where, "|", `\|`), r.status,
				shown(r.found), shown(r.change))
		}
		b.WriteString("\n")
	}
	b.WriteString("What no single value tells:\n\n| of | check | what it wants |\n|---|---|---|\n")
	for _, c := range coded {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c[0], c[1], c[2])
	}
	return b.String()
}

// shown returns a text with the names of its facts.
func shown(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string { return "*" + strings.Trim(name, "{}") + "*" })
}
