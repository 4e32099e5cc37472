package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Token is one of http.tokens: a caller and its rights. tarry knows only the hash of the token itself.
type Token struct {
	Name    string   `koanf:"name"`
	SHA256  Secret   `koanf:"sha256"`
	Push    []string `koanf:"push"`
	Pull    []string `koanf:"pull"`
	Read    bool     `koanf:"read"`
	Operate bool     `koanf:"operate"`
}

// Hash is the SHA-256 of the token.
func (t Token) Hash() (hash [sha256.Size]byte) {
	_, _ = hex.Decode(hash[:], []byte(t.SHA256.Reveal())) // checked when it was read
	return hash
}

const tokenMark = "tarry_"

// NewToken returns a token that cannot be guessed. Its prefix shows people, and scanners for leaked secrets, what it
// is.
func NewToken() (string, error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return tokenMark + base64.RawURLEncoding.EncodeToString(random[:]), nil
}

// HashToken returns the value of sha256 in http.tokens for a token.
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
		help: "the callers, each with its own rights; http.token has all rights",
		example: "tokens:\n" +
			"  - name: shop                  # in the log of operator actions\n" +
			"    sha256: 64 hex digits       # of the token, which tarry does not store\n" +
			"    push: [\"orders.>\", mail.*]  # topics it may push to, and whose waiting messages it may " +
			"cancel and reschedule\n" +
			"    read: true                  # look-ups, lists, topics, cluster, metrics\n" +
			"    operate: false              # changes of many messages, dead messages, pause, restore, verify, " +
			"redeliver, resign; includes read\n",
		required: []string{"name", "sha256"},
		rows: []setting{
			{name: "name", limit: tokenName(64), help: "name of the caller, for the log; unique among the tokens"},
			{name: "sha256", secret: true, limit: tokenHash(), help: "SHA-256 of the token in hex"},
			{name: "push", limit: several{of: pattern(), max: maxPatterns},
				help: "topics it may push to, and whose messages it may cancel, reschedule and run one by one"},
			{name: "pull", limit: several{of: pattern(), max: maxPatterns}, help: "topics it may pull from"},
			{name: "read", fallback: "false", limit: toggle{},
				help: "it may look up, list and count messages of all topics, and see topics, cluster and metrics"},
			{name: "operate", fallback: "false", limit: toggle{}, help: "it may act as an operator, on all " +
				"topics: change many messages, dead messages, pause, restore, verify, redeliver, resign; includes " +
				"read"},
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
			return "is not a SHA-256 in hex"
		case strings.EqualFold(s, HashToken("")):
			return "is the hash of an empty token"
		}
		return ""
	}}
}

// mountedTokens reads http.tokens_file, which holds tokens and nothing else.
func (l *loader) mountedTokens(path string) []any {
	const name = "http.tokens_file"
	file, err := readYAML(path)
	if err != nil {
		l.refuse(name, err.Error())
		return nil
	}
	tree := file.Raw()
	for key := range tree {
		if key != "tokens" {
			l.refuse(name, "holds more than tokens: "+shownName(key))
			return nil
		}
	}
	found := l.items(tokenList(), "tokens", tree["tokens"], path)
	if len(found) == 0 && l.good("http.tokens") { // an unfilled mount must not admit everybody
		l.refuse(name, "holds no tokens")
	}
	return found
}

// checkTokens checks rules that span all tokens. The first of them are from http.tokens, the others from the mounted
// file.
func (l *loader) checkTokens(h HTTP) {
	const name, fileName = "http.tokens", "http.tokens_file"
	first, _ := l.merged.Get(name).([]any)
	if !l.good(name, fileName) {
		return
	}
	if n := len(h.Tokens); n > maxTokens {
		l.refuseAt(name, Problem{Name: name, Wrong: fmt.Sprintf("and %s have %d items together", fileName, n),
			Limit: tokenList().words()})
		return
	}
	names, hashes := map[string]string{}, map[[sha256.Size]byte]string{}
	if h.Token != "" {
		hashes[sha256.Sum256([]byte(h.Token.Reveal()))] = "http.token"
	}
	for i, t := range h.Tokens {
		place, source := fmt.Sprintf("%s[%d]", name, i), l.source(name)
		if i >= len(first) {
			place, source = fmt.Sprintf("tokens[%d]", i-len(first)), h.TokensFile
		}
		refuse := func(field, wrong string) {
			l.refuseAt(name, Problem{Name: place + field, Wrong: wrong, Source: source})
		}
		if other, taken := names[t.Name]; taken {
			refuse(".name", fmt.Sprintf("is %s, like that of %s", shown(t.Name), other))
		}
		if other, taken := hashes[t.Hash()]; taken {
			refuse(".sha256", "is the same as that of "+other)
		}
		if len(t.Push) == 0 && len(t.Pull) == 0 && !t.Read && !t.Operate {
			refuse("", "has no right: none of push, pull, read and operate")
		}
		names[t.Name], hashes[t.Hash()] = place, place
	}
}
