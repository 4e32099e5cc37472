package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/wire"
)

func TestDecodeBatchParts_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	one := wire.AppendBatchPart(nil, wire.BatchPart{Header: []byte("NATS/1.0\r\n\r\n"), Body: []byte("x")})
	for _, c := range []struct{ count, body, word, detail string }{
		{"0", "", wire.WordTooLarge, `Tarry-Batch is "0"; want 1 to 500 messages`},
		{"501", "", wire.WordTooLarge, "want 1 to 500"},
		{"many", "", wire.WordTooLarge, `is "many"`},
		{"1", "", wire.WordBatch, "body ends within message 1 of 1"},
		{"2", string(one), wire.WordBatch, "ends within message 2 of 2"},
		{"1", string(one) + "y", wire.WordBatch, "has 1 bytes behind message 1, the last"},
		{"1", string(one[:len(one)-1]), wire.WordBatch, "ends within message 1 of 1"},
		{"1", "\xff\xff\xff\xff" + strings.Repeat("x", 100), wire.WordBatch, "ends within message 1 of 1"},
		{"1", "\x04\x00\x00\x00", wire.WordBatch, "ends within message 1 of 1"}, // 64 MiB of nothing
	} {
		parts, err := wire.DecodeBatchParts(c.count, []byte(c.body))
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Word != c.word || !strings.Contains(err.Error(), c.detail) || parts != nil {
			t.Errorf("%s, %q: %v, %v", c.count, c.body, parts, err)
		}
	}
}

// FuzzDecodeBatchParts: what is read is the whole body, and nothing else.
func FuzzDecodeBatchParts(f *testing.F) {
	f.Add(uint16(1), wire.AppendBatchPart(nil,
		wire.BatchPart{Header: []byte("NATS/1.0\r\nTarry-Delay: 1s\r\n\r\n"), Body: []byte("x")}))
	f.Add(uint16(2), bytes.Repeat([]byte{0}, 16))
	f.Add(uint16(1), []byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, count uint16, body []byte) {
		parts, err := wire.DecodeBatchParts(fmt.Sprint(count), body)
		if err != nil {
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Word == "" || refused.Field == "" || refused.Detail == "" {
				t.Fatalf("%#v is not a refusal that says what is wrong", err)
			}
			return
		}
		var again []byte
		for _, p := range parts {
			again = wire.AppendBatchPart(again, p)
		}
		if len(parts) != int(count) || !bytes.Equal(again, body) {
			t.Fatalf("%d: %q was read as %q", count, body, again)
		}
	})
}

// The page shows the bytes of a batch.
func TestDecodeBatchParts_ReadsThePagesExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for _, line := range strings.Split(string(page), "\n") {
		row := strings.ReplaceAll(line[:min(len(line), 47)], " ", "")
		if b, err := hex.DecodeString(row); err == nil && regexp.MustCompile(`^([0-9a-f]{2} )+`).MatchString(line) {
			body = append(body, b...)
		}
	}
	parts, err := wire.DecodeBatchParts("2", body)
	if err != nil || string(parts[0].Header) != "NATS/1.0\r\nTarry-Delay: 20m\r\n\r\n" ||
		string(parts[0].Body) != "hello" ||
		!strings.Contains(string(parts[1].Header), "\r\nTarry-Id: a\r\n") || len(parts[1].Body) != 0 {
		t.Errorf("%d bytes: %q, %v", len(body), parts, err)
	}
}
