package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Token is one of http.tokens: who may do what. Of the token itself tarry knows only the hash.
type Token struct {
	Name    string   `setting:"name"`
	SHA256  Secret   `setting:"sha256"`
	Push    []string `setting:"push"`
	Pull    []string `setting:"pull"`
	Read    bool     `setting:"read"`
	Operate bool     `setting:"operate"`
	mounted bool     // it stands in http.tokens_file
}

func (t *Token) elsewhere() bool { return t.mounted }

// Hash is the SHA-256 of the token.
func (t Token) Hash() (hash [sha256.Size]byte) {
	_, _ = hex.Decode(hash[:], []byte(t.SHA256.Reveal())) // checked when it was read
	return hash
}

const tokenMark = "tarry_"

// NewToken makes a token that nobody can guess. Its prefix shows people, and scanners for leaked secrets, what it is.
func NewToken() (string, error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return tokenMark + base64.RawURLEncoding.EncodeToString(random[:]), nil
}

// HashToken is what stands for a token under sha256 in http.tokens.
func HashToken(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}

const (
	maxTokens   = 1000
	maxPatterns = 100
)

func tokenList() sequence {
	return sequence{
		name: "http.tokens", one: "a token", max: maxTokens, before: "http.tokens_file", of: serve | dev,
		help: "who may call, each with rights of its own; http.token has all rights",
		example: "tokens:\n" +
			"  - name: shop                  # in the log of operator actions\n" +
			"    sha256: 64 hex digits       # of the token, which stands nowhere\n" +
			"    push: [\"orders.>\", mail.*]  # topics it may push to; it may cancel and reschedule what waits " +
			"for them\n" +
			"    read: true                  # look-ups, lists, topics, cluster, metrics\n" +
			"    operate: false              # bulk work, dead messages, pause, restore, verify, redeliver, resign; " +
			"with it comes read\n",
		required: []string{"name", "sha256"},
		rows: []setting{
			{name: "name", limit: tokenName(64), help: "who it is, for the log; unlike that of any other token"},
			{name: "sha256", secret: true, limit: tokenHash(), help: "SHA-256 of the token in hex"},
			{name: "push", limit: several{pattern(), maxPatterns},
				help: "topics it may push to, and whose messages it may cancel, reschedule and run one by one"},
			{name: "pull", limit: several{pattern(), maxPatterns}, help: "topics it may pull from"},
			{name: "read", fallback: "false", limit: toggle{},
				help: "it may look up, list and count messages of all topics, and see topics, cluster and metrics"},
			{name: "operate", fallback: "false", limit: toggle{}, help: "it may do what operators do, on all topics: " +
				"work on many messages, on the dead, pause, restore, verify, redeliver, resign; with it comes read"},
		},
	}
}

// tokenName is a label that no log line uses for something else.
func tokenName(max int) text {
	free := label(max)
	return text{free.word, free.limit + "; not token or anonymous", func(s string) string {
		if s == "token" || s == "anonymous" {
			return "stands for http.token, or for nobody, in the log"
		}
		return free.check(s)
	}}
}

func tokenHash() text {
	return text{"secret", "64 hex digits", func(s string) string {
		switch hash, err := hex.DecodeString(s); {
		case err != nil || len(hash) != sha256.Size:
			return "is no SHA-256 in hex"
		case strings.EqualFold(s, HashToken("")):
			return "is the hash of nothing"
		}
		return ""
	}}
}

// tokens reads http.tokens and what http.tokens_file holds, and what only both together show.
func (l *loader) tokens(plain Secret, file string) []Token {
	const name, fileName = "http.tokens", "http.tokens_file"
	all := items[Token](l, tokenList(), name, l.lists[name])
	places := make([]string, len(all))
	sources := make([]string, len(all))
	for i := range all {
		places[i], sources[i] = fmt.Sprintf("%s[%d]", name, i), l.lists[name].source
	}
	if file != "" && l.good(fileName) {
		mounted := l.tokensFile(file)
		for i := range mounted {
			mounted[i].mounted = true
			places, sources = append(places, fmt.Sprintf("tokens[%d]", i)), append(sources, file)
		}
		all = append(all, mounted...)
	}
	if !l.good(name, fileName) {
		return nil
	}
	if len(all) > maxTokens {
		l.refuseAt(name, Problem{Name: name, Wrong: fmt.Sprintf("and %s have %d items together", fileName, len(all)),
			Limit: tokenList().words()})
		return nil
	}
	names, hashes := map[string]string{}, map[[sha256.Size]byte]string{}
	if plain != "" {
		hashes[sha256.Sum256([]byte(plain.Reveal()))] = "http.token"
	}
	for i, t := range all {
		refuse := func(field, wrong string) {
			l.refuseAt(name, Problem{Name: places[i] + field, Wrong: wrong, Source: sources[i]})
		}
		if other, taken := names[t.Name]; taken {
			refuse(".name", fmt.Sprintf("is %s, as that of %s is", shown(t.Name), other))
		}
		if other, taken := hashes[t.Hash()]; taken {
			refuse(".sha256", "is that of "+other)
		}
		if len(t.Push) == 0 && len(t.Pull) == 0 && !t.Read && !t.Operate {
			refuse("", "has no right: none of push, pull, read and operate")
		}
		names[t.Name], hashes[t.Hash()] = places[i], places[i]
	}
	return all
}

// tokensFile reads the file that holds tokens and nothing else.
func (l *loader) tokensFile(path string) []Token {
	const name = "http.tokens_file"
	refuse := func(wrong string) []Token {
		l.refuse(name, wrong)
		return nil
	}
	content, err := l.read(path)
	if err != nil {
		return refuse(err.Error())
	}
	tree, err := parse(content)
	if err != nil {
		return refuse(err.Error())
	}
	for key := range tree {
		if key != "tokens" {
			return refuse("holds more than tokens: " + shownName(key))
		}
	}
	// A mount that is not filled yet must not open the door.
	found := items[Token](l, tokenList(), "tokens", listed{tree["tokens"], path})
	if len(found) == 0 && l.good("http.tokens") {
		return refuse("holds no tokens")
	}
	return found
}
