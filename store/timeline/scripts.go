package timeline

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

//go:embed lua/*.lua
var sources embed.FS

// keys is the prefix of one bucket's keys; doc.go lists them.
type keys string

func bucketKeys(ns string, bucket message.Bucket) keys {
	return keys("{" + ns + ":" + strconv.Itoa(int(bucket)) + "}:")
}

// of returns the key with a name.
func (k keys) of(name string) string { return string(k) + name }

// parked returns the key of a lane.
func (k keys) parked(lane string) string { return string(k) + "parked:" + lane }

func metaKey(ns string) string { return fmt.Sprintf("{%s}:meta", ns) }

// machinesKey returns one of the machineKeys keys that lease machine ids.
func machinesKey(ns string, i int) string { return fmt.Sprintf("{%s:m%d}:machines", ns, i) }

// script is one of the scripts in lua/, each of which documents itself.
type script struct {
	*redis.Script
	name      string
	certified bool       // it runs only on the certified data set, with certified.lua before it
	names     []string   // of its keys, in the order of its head
	keys      [][]string // its keys in each bucket
}

// loadScripts loads all scripts, by name, for the given buckets.
func loadScripts(buckets []keys) (map[string]*script, error) {
	files, err := fs.Glob(sources, "lua/*.lua")
	if err != nil {
		return nil, fmt.Errorf("list the scripts: %w", err)
	}
	lib, err := readLibrary()
	if err != nil {
		return nil, err
	}
	scripts := make(map[string]*script, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".lua")
		if name == "lib" || name == "server" || name == "certified" {
			continue
		}
		s, err := lib.load(name)
		if err != nil {
			return nil, err
		}
		for _, k := range buckets {
			list := make([]string, len(s.names))
			for i, key := range s.names {
				list[i] = k.of(key)
			}
			s.keys = append(s.keys, list)
		}
		scripts[name] = s
	}
	return scripts, nil
}

// load loads one script. Lines "-- KEYS due msg" of its head list the keys that it receives, and the script
// calls them DUE and MSG. Three parts may precede the script: server.lua if it matters which data set answers,
// certified.lua if the script reads messages, and the functions of lib.lua that it calls.
//
// Redis creates all functions and locals of a text again with each call. The whole of lib.lua costs 6 to 9
// microseconds, and up to 4 more if keys and constants are locals that its functions share. So keys and constants are
// substituted in the text, as KEYS[1] and numbers.
func (lib *library) load(name string) (*script, error) {
	s := &script{name: name}
	var before []string
	switch name {
	case "machine", "time", "raise", "mark", "take", "drop", "clear":
	case "certify", "standing", "hold":
		before = []string{"server"}
	default:
		before, s.certified = []string{"server", "certified"}, true
	}
	own, err := source(name)
	if err != nil {
		return nil, err
	}
	text := lib.before(code(own))
	for _, part := range slices.Backward(before) {
		first, err := source(part)
		if err != nil {
			return nil, err
		}
		text = code(first) + text
	}
	for line := range strings.Lines(own) {
		if list, is := strings.CutPrefix(line, "-- KEYS "); is {
			s.names = append(s.names, strings.Fields(list)...)
		}
	}
	if s.certified {
		s.names = append(s.names, "outbox", "outboxed", "gen")
	}
	words := maps.Clone(lib.words)
	for i, key := range s.names {
		words[strings.ToUpper(key)] = fmt.Sprintf("KEYS[%d]", i+1)
	}
	s.Script = redis.NewScript(put(words, text))
	return s, nil
}

// source returns the text of a file in lua/.
func source(name string) (string, error) {
	b, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		return "", fmt.Errorf("read script %s: %w", name, err)
	}
	return string(b), nil
}

// code returns a Lua text without its comments.
func code(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if bare, _, _ := strings.Cut(line, "--"); bare != "" || line == "" {
			lines = append(lines, strings.TrimRight(bare, " "))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// library holds what the scripts share: the vocabulary, and the functions ends, kept and those of lib.lua in the order
// of the file, in which a function calls only earlier ones.
type library struct {
	paragraphs []paragraph
	words      map[string]string
}

// paragraph is a part of the library between two empty lines, with the functions that it declares.
type paragraph struct {
	text     string
	declares []string
	words    []string // that occur in it
}

func readLibrary() (*library, error) {
	text, err := source("lib")
	if err != nil {
		return nil, err
	}
	lib := &library{words: vocabulary()}
	for text := range strings.SplitSeq(predicates()+code(text), "\n\n") {
		p := paragraph{text: text, words: wordsOf(text)}
		for line := range strings.Lines(text) {
			if declared, is := strings.CutPrefix(line, "local function "); is {
				name, _, _ := strings.Cut(declared, "(")
				p.declares = append(p.declares, name)
			}
		}
		lib.paragraphs = append(lib.paragraphs, p)
	}
	return lib, nil
}

// before puts the paragraphs that a script calls before the script: those that declare a function whose name occurs in
// what follows. It looks at words alone: a regular expression for each function took half a second.
func (lib *library) before(script string) string {
	used := map[string]bool{}
	use := func(words []string) {
		for _, word := range words {
			used[word] = true
		}
	}
	use(wordsOf(script))
	for _, p := range slices.Backward(lib.paragraphs) {
		if slices.ContainsFunc(p.declares, func(name string) bool { return used[name] }) {
			use(p.words)
			script = p.text + "\n\n" + script
		}
	}
	return script
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !inWord(r) })
}

// put replaces words of a Lua text, but not within quotes.
func put(words map[string]string, text string) string {
	var b strings.Builder
	copied := 0
	for from := 0; from < len(text); {
		to := from + 1
		switch {
		case text[from] == '\'':
			if end := strings.IndexAny(text[to:], "'\n"); end >= 0 && text[to+end] == '\'' {
				to += end + 1
			}
		case inWord(rune(text[from])):
			for to < len(text) && inWord(rune(text[to])) {
				to++
			}
			if other, is := words[text[from:to]]; is {
				b.WriteString(text[copied:from])
				b.WriteString(other)
				copied = to
			}
		}
		from = to
	}
	b.WriteString(text[copied:])
	return b.String()
}

// inWord reports whether a character belongs to a word of Lua.
func inWord(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// vocabulary returns the names from scheduler/message and the codec that the scripts may use: STATE_DEAD, KIND_PURGED,
// FORM_END and the like, and the steps of the table of transitions.
func vocabulary() map[string]string {
	words := map[string]string{"FORM_MESSAGE": strconv.Itoa(packedVersion), "FORM_END": strconv.Itoa(endedVersion),
		"FORM_AMENDED": strconv.Itoa(amendedVersion), "FORM_LEASED": strconv.Itoa(leasedVersion),
		"CALL_KEEP": strconv.FormatInt(scheduler.CallKeep.Milliseconds(), 10)}
	for _, s := range append(message.States(), message.StateNone) {
		words["STATE_"+strings.ToUpper(s.String())] = strconv.Itoa(int(s))
	}
	for k := message.KindPlain; k.Valid(); k++ {
		words["KIND_"+strings.ToUpper(cmp.Or(k.String(), "plain"))] = strconv.Itoa(int(k))
	}
	moves := "|"
	for _, t := range message.Transitions() {
		moves += fmt.Sprintf("%d:%d:%d|", t.From, t.To, t.Kind)
	}
	words["MOVES"] = "'" + moves + "'"
	return words
}

// predicates returns ends and kept in Lua: which states are ends, and which are kept.
func predicates() string {
	return predicate("ends", message.State.Ended) + predicate("kept", message.State.Kept)
}

func predicate(name string, is func(message.State) bool) string {
	text := "local function " + name + "(state) return false"
	for _, s := range message.States() {
		if is(s) {
			text += fmt.Sprintf(" or state == %d", s)
		}
	}
	return text + " end\n\n"
}
