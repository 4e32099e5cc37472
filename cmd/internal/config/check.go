package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// A check gives the phrase that follows the value in a message ("has no port"), or nothing for a good value.

func identifier(max int) text {
	limit := fmt.Sprintf("1 to %d of a-z, 0-9, _ and -, beginning with a letter or digit", max)
	return text{"name", limit, func(s string) string {
		if len(s) > max {
			return fmt.Sprintf("is longer than %d", max)
		}
		for i := range len(s) {
			c := s[i]
			if lower := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'; !lower && (i == 0 || c != '_' && c != '-') {
				return fmt.Sprintf("has %q at position %d", first(s[i:]), i+1)
			}
		}
		return ""
	}}
}

func label(max int) text {
	limit := fmt.Sprintf("1 to %d of A-Z, a-z, 0-9, _, . and -", max)
	return text{"name", limit, func(s string) string {
		if len(s) > max {
			return fmt.Sprintf("is longer than %d", max)
		}
		for i := range len(s) {
			if c := s[i]; !wordByte(c) && c != '.' {
				return fmt.Sprintf("has %q at position %d", first(s[i:]), i+1)
			}
		}
		return ""
	}}
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

func first(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

const maxPrefix = 64

// prefix is the first part of the intake's subjects. It may not meet the subjects of tarry's own API, of NATS itself
// or of reply inboxes, and has no wildcard.
func prefix() text {
	limit := fmt.Sprintf(
		"1 to %d of A-Z, a-z, 0-9, _ and -, in parts joined by dots; not tarry, _INBOX or $ at the start", maxPrefix)
	return text{"subject", limit, func(s string) string {
		if len(s) > maxPrefix {
			return fmt.Sprintf("is longer than %d", maxPrefix)
		}
		parts := strings.Split(s, ".")
		switch head := parts[0]; {
		case head == "tarry":
			return "lies under tarry's own subjects"
		case head == "_INBOX":
			return "lies under the reply inboxes"
		case strings.HasPrefix(head, "$"):
			return "lies under the server's own subjects"
		}
		for _, part := range parts {
			if part == "" {
				return "has an empty part"
			}
			for i := range len(part) {
				switch c := part[i]; {
				case c == '*' || c == '>':
					return "has a wildcard"
				case !wordByte(c):
					return fmt.Sprintf("has %q in it", first(part[i:]))
				}
			}
		}
		return ""
	}}
}

// token is what a client sends as "Authorization: Bearer ...", so it must fit a header.
func token(min, max int) text {
	limit := fmt.Sprintf("%d to %d printable ASCII characters, no space", min, max)
	return text{"secret", limit, func(s string) string {
		for i := range len(s) {
			if s[i] <= ' ' || s[i] >= 0x7f {
				return "has a character that a header cannot carry"
			}
		}
		return length(s, min, max)
	}}
}

// freeText is text without control characters: user names and passwords.
func freeText(noun string, max int) text {
	limit := fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", max)
	return text{noun, limit, func(s string) string {
		if phrase := printable(s); phrase != "" {
			return phrase
		}
		return length(s, 1, max)
	}}
}

// digestUser is a ZooKeeper user: "user:password" is one string there.
func digestUser(max int) text {
	free := freeText("name", max)
	return text{free.word, free.limit + " or colons", func(s string) string {
		if strings.Contains(s, ":") {
			return "has a colon"
		}
		return free.check(s)
	}}
}

func length(s string, min, max int) string {
	switch {
	case len(s) < min:
		return fmt.Sprintf("is shorter than %d bytes", min)
	case len(s) > max:
		return fmt.Sprintf("is longer than %d bytes", max)
	}
	return ""
}

func firstOf(phrases ...string) string {
	for _, phrase := range phrases {
		if phrase != "" {
			return phrase
		}
	}
	return ""
}

func printable(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "has a control character"
	}
	return ""
}

// schedule is when something is tried again; wire reads it, as it does for a message that brings its own.
func schedule() text {
	limit := fmt.Sprintf(
		"up to %d delays such as 0,2m,10m*5,1h, or exp(1s,1h,10), and ~20%% behind them for jitter; %d bytes",
		wire.MaxRetries, wire.RetryRoom)
	return text{"delays", limit, func(s string) string {
		if strings.Contains(s, "@") {
			return "is no list of delays" // wire would repeat what may be a password
		}
		retry, err := wire.ParseRetry(s)
		if e, ok := errors.AsType[*wire.Error](err); ok {
			return e.Detail
		}
		return length(retry.String(), 1, wire.RetryRoom)
	}}
}

const maxDSN = 2048

// dsn is a database's address. The driver that will use it reads it; what it says is left out, since no part of the
// address may be shown.
func dsn() text {
	limit := fmt.Sprintf("user:password@tcp(host:port)/database, or sqlite: and a file; up to %d bytes", maxDSN)
	return text{"secret", limit, func(s string) string {
		if phrase := firstOf(printable(s), length(s, 1, maxDSN)); phrase != "" {
			return phrase
		}
		if file, lite := strings.CutPrefix(s, "sqlite:"); lite {
			if file == "" {
				return "names no file"
			}
			return ""
		}
		// The last slash, as the driver has it: a password or a socket's path may hold others.
		name, _, _ := strings.Cut(s[strings.LastIndex(s, "/")+1:], "?")
		if !strings.Contains(s, "/") || name == "" {
			return "names no database"
		}
		if _, err := mysql.ParseDSN(s); err != nil {
			return "is not of this form"
		}
		return ""
	}}
}

const maxPath = 4096

// readableFile must be there when tarry starts. Only regular files: opening a pipe would block.
func readableFile() text {
	return text{"file", "a file that tarry can read", func(s string) string {
		if phrase := checkPath(s); phrase != "" {
			return phrase
		}
		info, err := os.Stat(s)
		if err != nil {
			return "cannot be read: " + reason(err)
		}
		if !info.Mode().IsRegular() {
			return "is not a file"
		}
		file, err := os.Open(s)
		if err != nil {
			return "cannot be read: " + reason(err)
		}
		if err := file.Close(); err != nil {
			return "cannot be read: " + reason(err)
		}
		return ""
	}}
}

// directory may be missing: the command makes it.
func directory() text {
	return text{"directory", "a directory, made when missing", func(s string) string {
		if phrase := checkPath(s); phrase != "" {
			return phrase
		}
		if info, err := os.Stat(s); err == nil && !info.IsDir() {
			return "is not a directory"
		}
		return ""
	}}
}

func checkPath(s string) string {
	if len(s) > maxPath {
		return fmt.Sprintf("is longer than %d", maxPath)
	}
	return printable(s)
}

// reason drops operation and path from a file error: the message has the path already.
func reason(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err.Error()
	}
	return err.Error()
}
