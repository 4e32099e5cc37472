package link_test

import (
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/link"
)

// The cause that an operator looks for stands in words, whatever the server calls it.
func TestStreamError_SaysThatTheDiskIsFull(t *testing.T) {
	t.Parallel()
	for text, full := range map[string]bool{
		"write /data/jetstream/msgs/1.blk: no space left on device": true, "maximum bytes exceeded": false,
	} {
		err := (&link.StreamError{Code: 503, ErrCode: 10077, Description: text}).Error()
		if strings.Contains(err, "the disk is full") != full || !strings.Contains(err, text+" (503, 10077)") {
			t.Errorf("%s: %s", text, err)
		}
	}
}
