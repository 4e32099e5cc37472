package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Settings are checked, and shown, where no server is: all mistakes at once, and never a secret.
func TestConfig_ChecksAFileAndShowsWhatATopicGets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tarry.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("retry: 1m\ntopics:\n  - {pattern: \"mail.>\", rate: 50, retry: \"10s,1m\"}\n  - {pattern: bills, " +
		"deliver: webhook, webhook: {url: \"https://example.com/in\", secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}}\n")
	tarry(t, "", nil, "config", "check", file).want(t, exitDone, ": good, with 2 topics and 0 tokens")
	for topic, want := range map[string]string{
		"mail.a": "pattern: mail.>\nretry: 10s,1m\ncore: hold\nrate: 50\n# what is not listed is at its default\n",
		"bills": "pattern: bills\ndeliver: webhook\nretry: 1m\ncore: hold\nwebhook.url: https://example.com/in\n" +
			"webhook.secrets: [***]\n# what is not listed is at its default\n",
		"other": "# no pattern of topics matches other\nretry: 1m\n# what is not listed is at its default\n",
	} {
		if r := tarry(t, "", nil, "config", "topic", topic, "--config", file).want(t, exitDone, ""); r.out != want {
			t.Errorf("%s: got\n%swant\n%s", topic, r.out, want)
		}
	}
	write("buckets: 0\ntopics: [{pattern: a, rate: -1}]\n")
	tarry(t, "", nil, "config", "check", file).want(t, exitUsage, "buckets").want(t, exitUsage, "topics[0].rate")
	write("topics: [{pattern: bills, deliver: webhook, webhook: {url: \"https://example.com\", " +
		"secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw], headers: [webhook-id]}}]\n")
	tarry(t, "", nil, "config", "check", file).want(t, exitFailed, "webhook of bills: header webhook-id belongs")
	tarry(t, "", nil, "config").want(t, exitDone, "check")
	tarry(t, "", nil, "config", "chek").want(t, exitUsage, "check")
}

// Without a file of settings nothing can match, which is not the same as no match.
func TestConfigTopic_SaysThatNoTopicsAreSet(t *testing.T) {
	t.Parallel()
	tarry(t, "", nil, "config", "topic", "orders.new").want(t, exitDone, "no topics are set here: --config names the file")
}

func TestTyped_IsWhatRunsTheProgram(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"tarry": "tarry", "/usr/bin/tarry": "tarry",
		"/tmp/go-build1538970292/b001/exe/tarry": "go run ./cmd/tarry"} {
		if got := typed(program); got != want {
			t.Errorf("%s is typed as %q", program, got)
		}
	}
}
