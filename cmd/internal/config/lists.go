package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Topic is an item of topics: the settings of the topics that match its pattern. If several match, the first applies.
type Topic struct {
	// the topics that this section is for
	Pattern string `setting:"pattern" limit:"pattern"`
	// where due messages go if a push does not say it: mq is NATS, pull leaves them to consumers that fetch them over
	// HTTP, and webhook posts them; camellia's sendMsg is for pull unless mq is said here
	// default: mq
	Deliver string `setting:"deliver" limit:"mq|pull|webhook"`
	// how long a consumer may hold a message that it has pulled, if neither the pull nor the push says it
	// default: 30s
	Lease time.Duration `setting:"lease" limit:"100ms..12h"`
	// hand out the messages of one key one after the other: the next once the one before has ended; needs deliver:
	// pull or webhook
	Serial bool `setting:"serial" default:"false"`
	// when a message without its own schedule is delivered again, after a consumer sent it back or NATS permanently
	// refused it; after the last delay it is dead
	// default: the setting retry
	Retry string `setting:"retry" limit:"schedule"`
	// how long after its due time a message without its own ttl is still delivered
	// default: for ever
	TTL time.Duration `setting:"ttl" limit:"1ms..87672h"`
	// what happens if nobody listens on a core NATS subject: hold keeps messages until somebody does, drop loses them
	Core string `setting:"core" default:"hold" limit:"hold|drop"`
	// deliveries a second, for all topics of the pattern together
	// default: no bound
	Rate float64 `setting:"rate" limit:"0.001..1000000"`
	// deliveries a second of messages that are more than 5s late
	// default: no bound
	CatchUpRate float64 `setting:"catch_up_rate" limit:"0.001..1000000"`
	// subject that gets a copy of each dead message
	Dead string `setting:"dead" limit:"subject"`
	// subject that gets a copy of each expired message
	Expired string `setting:"expired" limit:"subject"`
	// number of parts of the subject: messages are due on it with .0, .1 and so on; a key always has the same part
	// default: none
	Partitions int     `setting:"partitions" limit:"1..1024"`
	Webhook    Webhook `setting:"webhook"`
}

// Lines returns the settings that are set, one a line.
func (t Topic) Lines() (all []string) {
	eachField(reflect.ValueOf(t), "", func(name string, field reflect.Value) {
		if !field.IsZero() {
			all = append(all, fmt.Sprintf("%s: %v", name, field.Interface()))
		}
	})
	return all
}

// Webhook is the target of a topic with deliver: webhook.
type Webhook struct {
	// where the messages are posted; needs deliver: webhook
	URL string `setting:"url" limit:"target url"`
	// secrets that sign what is posted, as in Standard Webhooks, one signature each: so that a receiver can change
	// from one to the next
	Secrets []Secret `setting:"secrets" limit:"hook secret" max:"8"`
	// how long the target may take to answer
	// default: 10s
	Timeout time.Duration `setting:"timeout" limit:"100ms..5m"`
	// requests that an instance has under way at once, for all topics of the pattern together
	// default: 8
	Concurrency int `setting:"concurrency" limit:"1..256"`
	// post JSON arrays of up to so many messages that are ready; see docs/webhooks.md
	// default: each message by itself
	Batch int `setting:"batch" limit:"1..1000"`
	// headers of messages that go along though receivers may take them for rights or for the word of a proxy, such as
	// Authorization
	// default: none
	Headers []string `setting:"headers" limit:"label 64" max:"32"`
}

// DeliverWebhook is the value of deliver for topics whose messages are posted.
const DeliverWebhook = "webhook"

const maxTopics = 1000

func topicList() sequence {
	return sequence{
		name: "topics", one: "a topic", max: maxTopics, before: "retry", of: serve | dev,
		help: "settings for the topics that match a pattern; the first pattern that matches a topic applies",
		example: "topics:\n" +
			"  - pattern: \"mail.>\"\n" +
			"    rate: 50                # messages a second, for all topics of the pattern together\n" +
			"    retry: 10s,1m,10m       # then dead\n" +
			"    dead: ops.mail.dead     # gets copies of dead messages\n" +
			"  - pattern: orders.remind\n" +
			"    partitions: 8           # due on orders.remind.0 to orders.remind.7, by key\n",
		required: []string{"pattern"},
		rows:     rowsOf(reflect.TypeFor[Topic](), "", 0),
	}
}

// checkTopics checks the rules that span the list.
func (l *loader) checkTopics(all []Topic, prefix string) {
	const name = "topics"
	if !l.good(name, "nats.prefix") {
		return
	}
	source := l.source(name)
	for i, t := range all {
		refuse := func(field, value, wrong string) {
			p := Problem{Name: fmt.Sprintf("%s[%d].%s", name, i, field), Wrong: wrong, Source: source}
			if value != "" {
				p.Value = shown(value)
			}
			l.refuseAt(name, p)
		}
		if err := wire.CheckNotOwn(t.Pattern, prefix); err != nil {
			refuse("pattern", t.Pattern, phrase(err))
		}
		for j, earlier := range all[:i] {
			if wire.Covers(earlier.Pattern, t.Pattern) {
				refuse("pattern", t.Pattern, fmt.Sprintf(
					"never applies: topics[%d] has %s, which matches all of it first", j, shown(earlier.Pattern)))
				break
			}
		}
		if field, value := t.forNATS(); t.pulled() && field != "" {
			refuse(field, value, "requires deliver: mq")
		}
		if t.Serial && !t.pulled() {
			refuse("serial", "true", "requires deliver: pull or webhook; on NATS, partitions keep a key in order")
		}
		h := &t.Webhook
		hooked := t.Deliver == DeliverWebhook
		switch {
		case !hooked && (h.URL != "" || len(h.Secrets) > 0 || h.Timeout > 0 || h.Concurrency > 0 || h.Batch > 0 ||
			len(h.Headers) > 0):
			refuse("webhook", "", "requires deliver: webhook")
		case hooked && h.URL == "":
			refuse("webhook.url", "", "is not set, and deliver: webhook needs it")
		case hooked && len(h.Secrets) == 0:
			refuse("webhook.secrets", "", "is not set, and deliver: webhook needs one; make it with: "+
				"echo whsec_$(openssl rand -base64 32)")
		}
		if hooked && t.Lease > 0 {
			refuse("lease", showSpan(t.Lease), "cannot be combined with deliver: webhook, which has webhook.timeout")
		}
		for _, c := range [...]struct{ field, subject string }{{"dead", t.Dead}, {"expired", t.Expired}} {
			switch err := wire.CheckNotOwn(c.subject, prefix); {
			case c.subject == "":
			case err != nil:
				refuse(c.field, c.subject, phrase(err))
			case loops(all, i, c.subject):
				refuse(c.field, c.subject, "leads back to this topic: copies would make further copies")
			}
		}
	}
}

// pulled reports whether the topic's messages wait in the order for consumers that pull, of whom webhooks are one.
func (t *Topic) pulled() bool { return t.Deliver == wire.PullWord || t.Deliver == DeliverWebhook }

// hookSecret is a secret as Standard Webhooks writes it.
func hookSecret() text {
	return text{"secret", "whsec_ and base64 of 24 to 64 random bytes", func(s string) string {
		encoded, ok := strings.CutPrefix(s, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !ok:
			return "does not begin with whsec_"
		case err != nil:
			return "is not base64 after whsec_"
		case len(key) < 24 || len(key) > 64:
			return fmt.Sprintf("has %d bytes", len(key))
		}
		return ""
	}}
}

// forNATS returns a setting, with its value, that only concerns what NATS carries.
func (t *Topic) forNATS() (field, value string) {
	switch {
	case t.Core == "drop":
		return "core", t.Core
	case t.Dead != "":
		return "dead", t.Dead
	case t.Expired != "":
		return "expired", t.Expired
	case t.Rate > 0:
		return "rate", fmt.Sprint(t.Rate)
	case t.CatchUpRate > 0:
		return "catch_up_rate", fmt.Sprint(t.CatchUpRate)
	case t.Partitions > 0:
		return "partitions", fmt.Sprint(t.Partitions)
	}
	return "", ""
}

// loops reports whether a copy of a message of topic i on this subject may lead to another copy for topic i. It assumes
// that each topic may send a copy to either of its two subjects.
func loops(all []Topic, i int, subject string) bool {
	seen := map[int]bool{}
	next := []string{subject}
	for len(next) > 0 {
		at := settingsOf(all, next[0])
		next = next[1:]
		if at == i {
			return true
		}
		if at < 0 || seen[at] {
			continue
		}
		seen[at] = true
		for _, copies := range []string{all[at].Dead, all[at].Expired} {
			if copies != "" {
				next = append(next, copies)
			}
		}
	}
	return false
}

// settingsOf returns the index of the topic that applies to a subject, -1 for none.
func settingsOf(all []Topic, subject string) int {
	for i, t := range all {
		if wire.Covers(t.Pattern, subject) {
			return i
		}
	}
	return -1
}

// Token is one of http.tokens: a caller and its rights. tarry knows only the hash of the token itself.
type Token struct {
	// name of the caller, for the log; unique among the tokens
	Name string `setting:"name" limit:"token name 64"`
	// SHA-256 of the token in hex
	SHA256 Secret `setting:"sha256" limit:"token hash"`
	// topics it may push to, and whose messages it may cancel, reschedule and run one by one
	Push []string `setting:"push" limit:"pattern" max:"100"`
	// topics it may pull from
	Pull []string `setting:"pull" limit:"pattern" max:"100"`
	// it may look up, list and count messages of all topics, and see topics, cluster and metrics
	Read bool `setting:"read" default:"false"`
	// it may act as an operator, on all topics: change many messages, dead messages, pause, restore, verify,
	// redeliver, resign; includes read
	Operate bool `setting:"operate" default:"false"`
	// with read or operate: it may see headers and bodies; false hides them from it, and keeps it from changing them
	Bodies bool `setting:"bodies" default:"true"`
}

// MarshalJSON is for the digest that instances compare. It leaves bodies out where nothing is hidden, so that an
// instance of before has the same digest.
func (t Token) MarshalJSON() ([]byte, error) {
	type plain Token
	shown := struct {
		plain
		Bodies *bool `json:",omitempty"`
	}{plain: plain(t)}
	if !t.Bodies {
		shown.Bodies = &t.Bodies
	}
	return json.Marshal(shown)
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

const maxTokens = 1000

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
		rows:     rowsOf(reflect.TypeFor[Token](), "", 0),
	}
}

// tokenName is a label that no log line uses for something else.
func tokenName(max int) text {
	free := label(max)
	return text{free.word, free.limit + "; not token, anonymous or nats", func(s string) string {
		if s == "token" || s == "anonymous" || s == "nats" {
			return "stands for http.token, for nobody, or for callers over NATS, in the log"
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
	tree, err := readYAML(path)
	if err != nil {
		l.refuse(name, err.Error())
		return nil
	}
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
	first, _ := l.merged[name].([]any)
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
