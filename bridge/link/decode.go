package link

import (
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Decode reads a push by tag under a subject of the intake. nats.go drops all headers if it cannot read one of them,
// and the tag with them; Decode says so.
func Decode(msg *nats.Msg, subject, prefix string) (wire.Push, error) {
	p, err := wire.Decode(subject, prefix, msg.Header, len(msg.Data))
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Word == wire.WordNoDelay && msg.Header == nil &&
		msg.Size() > len(msg.Subject)+len(msg.Reply)+len(msg.Data) {
		err = UnreadableHeaders()
	}
	return p, err
}

// UnreadableHeaders refuses a push whose header block is none.
func UnreadableHeaders() error {
	return &wire.Error{Word: wire.WordHeader, Field: wire.FieldHeaders,
		Detail: "cannot be read: each line needs a name, a colon and a value, and an empty line ends them"}
}
