package timeline

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The scripts and Go know the same transitions: every step of every kind is asked of both.
func TestMay_AgreesWithTheTableOfGo(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: lab.SharedRedis(t).Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	lib, err := sources.ReadFile("lua/lib.lua")
	if err != nil {
		t.Fatal(err)
	}
	text := predicates() + string(lib) + `
local answers = {}
for from = 0, 8 do
  for to = 0, 8 do
    for kind = 0, 20 do answers[#answers + 1] = may(from, to, kind) and 1 or 0 end
  end
end
return answers`
	answers, err := rdb.Eval(
		t.Context(), put(vocabulary(), "local doubt, doubt_pull, CONTEXT = 0, 0, ''\n"+text), nil).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	i, allowed := 0, 0
	for from := range message.State(9) {
		for to := range message.State(9) {
			for kind := range message.Kind(21) {
				if got, want := answers[i] == 1, from.Allows(to, kind); got != want {
					t.Errorf("%s to %s by %q: the scripts say %t, Go %t", from, to, kind, got, want)
				}
				if answers[i] == 1 {
					allowed++
				}
				i++
			}
		}
	}
	if allowed != len(message.Transitions()) {
		t.Errorf("%d steps are allowed, the table has %d", allowed, len(message.Transitions()))
	}
}

func TestVocabulary_NamesEveryStateAndKind(t *testing.T) {
	words := map[string]string{
		"STATE_NONE": "0",
		"KIND_PLAIN": "0", "KIND_MERGED": "1", "KIND_ABSORBED": "2", "KIND_REPLACED": "3", "KIND_GAVE_WAY": "4",
		"KIND_YIELDED": "5", "KIND_REQUEUED": "6", "KIND_REQUEUE": "7", "KIND_PURGED": "8", "KIND_WITHDRAWN": "9",
		"KIND_SWEPT": "10", "KIND_RESTORED": "11", "KIND_PARKED": "12", "KIND_LAPSED": "13", "KIND_TRIED": "14",
		"KIND_RELEASED": "15", "KIND_END_LOST": "16",
		"FORM_MESSAGE": "1", "FORM_END": "2", "FORM_AMENDED": "3", "FORM_LEASED": "5", "MOVES": vocabulary()["MOVES"],
	}
	ended, kept := "", ""
	for _, s := range message.States() {
		number := strconv.Itoa(int(s))
		words["STATE_"+strings.ToUpper(s.String())] = number
		if s.Ended() {
			ended += " or state == " + number
		}
		if s.Kept() {
			kept += " or state == " + number
		}
	}
	words["CALL_KEEP"] = "180000"
	if got := vocabulary(); !maps.Equal(got, words) {
		t.Errorf("got %v", got)
	}
	for _, want := range []string{
		"local function ends(state) return false" + ended + " end\n\n",
		"local function kept(state) return false" + kept + " end\n\n",
	} {
		if text := predicates(); !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

// A script is given the keys that its head names and no others: a name that it lacks would be an error of the one path
// that uses it, perhaps after a first write.
func TestScripts_NameTheKeysThatTheyUse(t *testing.T) {
	code := func(name string) string {
		b, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`--.*|'(\\.|[^'\\\n])*'`).ReplaceAllString(string(b), "")
	}
	word := regexp.MustCompile(`\w+`)
	uses := map[string][]string{} // words by function of lib.lua
	for _, part := range regexp.MustCompile(`(?m)^local function `).Split(code("lib"), -1)[1:] {
		words := word.FindAllString(part, -1)
		uses[words[0]] = words[1:]
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(sources, "lua/*.lua")
	if err != nil || len(files) < 30 || len(uses) < 30 {
		t.Fatalf("%d scripts, %d functions, %v", len(files), len(uses), err)
	}
	lib, err := readLibrary()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".lua")
		if name == "lib" || name == "server" || name == "certified" {
			continue
		}
		s, err := lib.load(name)
		if err != nil {
			t.Fatal(err)
		}
		given := slices.Clone(s.names)
		used := map[string]bool{}
		for words := word.FindAllString(code(name), -1); len(words) > 0; words = words[1:] {
			if w := words[0]; !used[w] {
				used[w] = true
				words = append(words, uses[w]...)
			}
		}
		if s.certified {
			given = append(given, "context")
		}
		for w := range used {
			if strings.ToUpper(w) == w && len(w) > 2 && !strings.Contains(w, "_") && strings.ToLower(w) != w &&
				w != "KEYS" && w != "ARGV" && w != "MOVES" && !slices.Contains(given, strings.ToLower(w)) {
				t.Errorf("%s uses %s, which its head does not name", name, w)
			}
		}
		for _, key := range s.names {
			if !regexp.MustCompile(`:` + key + `\b`).Match(doc) {
				t.Errorf("%s is given %s, which doc.go does not list", name, key)
			}
			if !used[strings.ToUpper(key)] && !slices.Contains([]string{"outbox", "outboxed", "gen"}, key) {
				t.Errorf("%s is given %s and does not use it", name, key)
			}
		}
	}
}

// The table in doc.go has each script, the method that does the same in both stores, and the suites that hold it to it.
func TestScripts_StandBesideTheirTwins(t *testing.T) {
	t.Parallel()
	read := func(pattern string) (text string) {
		t.Helper()
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				text += string(b)
			}
		}
		return text
	}
	doc := read("doc.go")
	_, table, _ := strings.Cut(doc, "# Scripts, and what is the same in memory")
	table, _, _ = strings.Cut(table, "// # Pull")
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t(\w+) +(\w+) +(\w+\.go) +(.+)$`).FindAllStringSubmatch(table, -1) {
		script, method := row[1], row[2]
		rows[script] = true
		if !strings.Contains(read("*.go"), "func (t *Redis) "+method+"(") {
			t.Errorf("%s: Redis has no method %s", script, method)
		}
		if !strings.Contains(read("../memory/"+row[3]), "func (t *Timeline) "+method+"(") {
			t.Errorf("%s: store/memory/%s has no method %s", script, row[3], method)
		}
		for suite := range strings.SplitSeq(row[4], ", ") {
			if !regexp.MustCompile(`(?i)\.` + method + `\w*\(`).MatchString(read("../../scheduler/schedulertest/" + suite)) {
				t.Errorf("%s: schedulertest/%s does not call %s", script, suite, method)
			}
		}
	}
	_, alone, _ := strings.Cut(table, "// Redis alone")
	for _, file := range names(t) {
		if !rows[file] && !regexp.MustCompile(`\b`+file+`\b`).MatchString(alone) {
			t.Errorf("the table in doc.go lacks %s.lua", file)
		}
		delete(rows, file)
	}
	for script := range rows {
		t.Errorf("the table in doc.go has %s, which is no script", script)
	}
}

// names returns the scripts and their parts.
func names(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		all = append(all, strings.TrimSuffix(filepath.Base(file), ".lua"))
	}
	return all
}
