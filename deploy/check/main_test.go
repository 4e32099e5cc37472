package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck_SaysWhatAHistoryBreaks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history.jsonl")
	const text = `{"at":"2030-01-31T08:00:00Z","kind":"push","phase":"invoke","call":1,"message":"m1","body":"a"}
{"at":"2030-01-31T08:00:01Z","kind":"push","phase":"ok","call":1,"message":"m1","uid":"u1","due":"2030-01-31T08:20:00Z"}
{"at":"2030-01-31T08:19:59.9Z","kind":"deliver","message":"m1","uid":"u1","attempt":1,"body":"a","by":"worker"}
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	broken, err := check(name, &out)
	const want = "P2 never early: message m1: 100ms early: seen at 08:19:59.900000 by worker, due at 08:20:00.000000\n" +
		"3 events, 1 promises broken; the answers about 1 of 1 messages judged\n"
	if err != nil || broken != 1 || out.String() != want {
		t.Errorf("got %d, %v:\n%s", broken, err, out.String())
	}
	const lie = `{"at":"2030-01-31T08:00:02Z","kind":"cancel","phase":"invoke","call":2,"message":"m1"}
{"at":"2030-01-31T08:00:03Z","kind":"cancel","phase":"fail","call":2,"message":"m1","word":"unknown_id"}
`
	if err := os.WriteFile(name, []byte(strings.Replace(text, "08:19:59.9Z", "08:20:00.1Z", 1)+lie), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	out.Reset()
	broken, err = check(name, &out)
	_, picture, _ := strings.Cut(out.String(), "drawn in ")
	picture, _, _ = strings.Cut(picture, "\n")
	page, readErr := os.ReadFile(picture)
	if err != nil || broken != 1 || readErr != nil || !strings.Contains(string(page), "cancel fail unknown_id") {
		t.Errorf("got %d, %v, %v:\n%s", broken, err, readErr, out.String())
	}
	if _, err := check(name+".none", &out); err == nil {
		t.Error("a history that is not there is checked")
	}
}
