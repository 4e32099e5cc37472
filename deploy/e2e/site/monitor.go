package site

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Script is one run of a leader's script, as Redis's MONITOR shows it: the call, and behind it each command that the
// script ran. A script that Redis refused ran no command that writes.
type Script struct {
	Name    string // which the connection set
	bucket  string
	Term    uint64
	Wrote   bool
	Claimed bool // it added to the bucket's claims
}

// monitor reads MONITOR from before the first instance starts.
type monitor struct {
	conn net.Conn
	done chan struct{}

	mu      sync.Mutex
	names   map[string]string // connection → the name it set
	scripts []Script          // of leaders
	plain   map[string]int    // scripts of any kind, by the name of the connection
	failed  error
}

// Watch starts MONITOR on the site's Redis.
func (s *Site) Watch() *monitor {
	s.T.Helper()
	conn, err := net.Dial("tcp", s.Redis.Addr)
	if err != nil {
		s.T.Fatal(err)
	}
	m := &monitor{conn: conn, done: make(chan struct{}), names: map[string]string{}, plain: map[string]int{}}
	s.T.Cleanup(func() { conn.Close(); <-m.done })
	in := bufio.NewReaderSize(conn, 1<<16)
	fmt.Fprintf(conn, "AUTH %s\r\nMONITOR\r\n", RedisPassword)
	for range 2 {
		if answer, err := in.ReadString('\n'); err != nil || answer != "+OK\r\n" {
			s.T.Fatalf("monitor redis: %q, %v", answer, err)
		}
	}
	go m.read(in)
	return m
}

func (m *monitor) read(in *bufio.Reader) {
	defer close(m.done)
	var current *Script // the leader's script whose commands come next
	for {
		line, err := in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line: bodies
			line = slices.Clone(line)
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
				m.mu.Lock()
				m.failed = err
				m.mu.Unlock()
			}
			return
		}
		m.mu.Lock()
		current = m.line(string(line), current)
		m.mu.Unlock()
	}
}

// line takes in one line: +<time> [<db> <connection or lua>] "command" "argument" ...
func (m *monitor) line(text string, current *Script) *Script {
	_, rest, found := strings.Cut(text, "[")
	where, rest, closed := strings.Cut(rest, "] ")
	_, addr, named := strings.Cut(where, " ")
	if !found || !closed || !named {
		m.failed = fmt.Errorf("line %.100q cannot be read", text)
		return nil
	}
	words := quotedWords(rest, 24)
	if len(words) == 0 {
		return current
	}
	command := strings.ToUpper(words[0])
	if addr == "lua" {
		if current != nil && !slices.Contains(reading, command) {
			current.Wrote = true
			if command == "HSET" && len(words) > 1 && strings.HasSuffix(words[1], "}:claimed") {
				current.Claimed = true
			}
		}
		return current
	}
	switch command {
	case "EVAL", "EVALSHA":
		return m.script(addr, words)
	case "CLIENT", "HELLO":
		for i, w := range words[:len(words)-1] {
			if strings.EqualFold(w, "setname") {
				m.names[addr] = words[i+1]
			}
		}
	}
	return nil
}

// reading are the commands of scripts that change nothing.
var reading = []string{"GET", "HGET", "HMGET", "HGETALL", "HEXISTS", "ZSCORE", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE",
	"ZCARD", "EXISTS", "SMEMBERS",
	"SISMEMBER", "LINDEX", "LLEN", "TIME", "INFO", "HLEN", "HSTRLEN", "HSCAN", "ZCOUNT", "XLEN", "XRANGE"}

// script takes in a call. A leader's has its bucket's term among the keys, and its own term as first argument.
func (m *monitor) script(addr string, words []string) *Script {
	m.plain[m.names[addr]]++
	if len(words) < 3 {
		return nil
	}
	n, err := strconv.Atoi(words[2])
	if err != nil || len(words) < 3+n+1 {
		return nil
	}
	keys := words[3 : 3+n]
	at := slices.IndexFunc(keys, func(k string) bool { return strings.HasSuffix(k, "}:term") })
	if at < 0 || words[3+n] == "" { // the look at the heads has the key, and no term
		return nil
	}
	term, err := strconv.ParseUint(words[3+n], 10, 64)
	if err != nil {
		m.failed = fmt.Errorf("a script with %s has no term: %q", keys[at], words)
		return nil
	}
	m.scripts = append(m.scripts,
		Script{Name: m.names[addr], bucket: strings.TrimSuffix(keys[at], ":term"), Term: term})
	return &m.scripts[len(m.scripts)-1]
}

// quotedWords reads up to n words; a word that was cut off is left out.
func quotedWords(text string, n int) []string {
	var words []string
	for len(words) < n {
		text = strings.TrimLeft(text, " ")
		prefix, err := strconv.QuotedPrefix(text)
		if err != nil {
			return words
		}
		word, err := strconv.Unquote(prefix)
		if err != nil {
			return words
		}
		words = append(words, word)
		text = text[len(prefix):]
	}
	return words
}

// Count is how many scripts match.
func (m *monitor) Count(match func(Script) bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, x := range m.scripts {
		if match(x) {
			n++
		}
	}
	return n
}

// Pushes is how many scripts a connection of that name ran that are not a leader's.
func (m *monitor) Pushes(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.plain[name]
	for _, x := range m.scripts {
		if x.Name == name {
			n--
		}
	}
	return n
}

// Judge holds what MONITOR saw against the promise of one leader in effect: in no bucket does a script write under a
// term after one under a higher term has written, and each term has one instance. leaders are from the logs.
func (m *monitor) Judge(t *testing.T, leaders []leading) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		t.Error(m.failed)
	}
	owner := map[uint64]string{}
	for _, l := range leaders {
		owner[l.term] = "tarry-" + l.instance
	}
	highest := map[string]uint64{}
	wrote, claims, refused := 0, 0, 0
	var found []Violation
	for _, x := range m.scripts {
		if x.Name == "" || x.Name != owner[x.Term] {
			found = append(found, Violation{"not the leader", -1,
				fmt.Sprintf("%q ran a script under term %d, which %q leads", x.Name, x.Term, owner[x.Term])})
		}
		switch {
		case x.Wrote && x.Term < highest[x.bucket]:
			found = append(found, Violation{"stale write", -1, fmt.Sprintf(
				"%s wrote to %s under term %d after term %d had", x.Name, x.bucket, x.Term, highest[x.bucket])})
		case x.Term < highest[x.bucket]:
			refused++
		}
		if x.Wrote {
			wrote++
			highest[x.bucket] = max(highest[x.bucket], x.Term)
		}
		if x.Claimed {
			claims++
		}
	}
	Report(t, found)
	plain := 0
	for _, n := range m.plain {
		plain += n
	}
	if wrote == 0 || claims == 0 || plain == len(m.scripts) {
		t.Errorf("monitor saw %d scripts, %d of leaders, %d of them wrote, %d claimed: it does not see what there is",
			plain, len(m.scripts), wrote, claims)
	}
	t.Logf("monitor: %d scripts, %d of leaders, %d wrote, %d claimed, %d under an old term changed nothing", plain,
		len(m.scripts), wrote, claims, refused)
}
