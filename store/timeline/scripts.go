package timeline

import (
	"cmp"
	"embed"
	"errors"
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
	first, err2 := source(before...)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
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
	s.Script = redis.NewScript(put(words, code(first)+lib.before(code(own))))
	return s, nil
}

// source returns the text of files in lua/.
func source(names ...string) (text string, err error) {
	for _, name := range names {
		b, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			return "", fmt.Errorf("read script %s: %w", name, err)
		}
		text += string(b)
	}
	return text, nil
}

// code returns a Lua text without its comments.
func code(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if bare, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "--"); bare != "" || line == "\n" {
			b.WriteString(strings.TrimRight(bare, " ") + "\n")
		}
	}
	return b.String()
}

// library holds what the scripts share: the vocabulary, and the functions ends, kept and those of lib.lua in the order
// of the file, in which a function calls only earlier ones.
type library struct {
	paragraphs []string       // the parts between two empty lines
	calls      [][]int        // of each paragraph: those whose functions it calls, itself among them
	declared   map[string]int // the paragraph of each function
	words      map[string]string
}

func readLibrary() (*library, error) {
	text, err := source("lib")
	if err != nil {
		return nil, err
	}
	lib := &library{declared: map[string]int{}, words: vocabulary()}
	lib.paragraphs = strings.Split(predicates()+code(text), "\n\n")
	for i, text := range lib.paragraphs {
		for line := range strings.Lines(text) {
			if function, is := strings.CutPrefix(line, "local function "); is {
				name, _, _ := strings.Cut(function, "(")
				lib.declared[name] = i
			}
		}
		lib.calls = append(lib.calls, lib.calledBy(text))
	}
	return lib, nil
}

// calledBy returns the paragraphs that declare a function whose name occurs in a text. It looks at words alone: a
// regular expression for each function took half a second.
func (lib *library) calledBy(text string) (list []int) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !inWord(r) }) {
		if i, is := lib.declared[word]; is {
			list = append(list, i)
		}
	}
	return list
}

// before puts the paragraphs that a script calls, itself or by others, before the script.
func (lib *library) before(script string) string {
	needed := make([]bool, len(lib.paragraphs))
	need := func(list []int) {
		for _, i := range list {
			needed[i] = true
		}
	}
	need(lib.calledBy(script))
	var texts []string
	for i, text := range slices.Backward(lib.paragraphs) {
		if needed[i] {
			need(lib.calls[i])
			texts = append(texts, text)
		}
	}
	slices.Reverse(texts)
	return strings.Join(append(texts, script), "\n\n")
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
