package bridge

import (
	"math"

	"github.com/nats-io/nats.go"
)

// headRoom is what tarry's own headers may take of a delivered message, with
// room to spare.
const headRoom = 4096

// SizeLimit bounds body and headers of a push together: what the server lets
// through once tarry's headers are added, and the setting's own limit, where
// it is not 0. Until a server has announced its limit only the setting's holds;
// a delivery that turns out too large ends as dead, not as lost.
func SizeLimit(nc *nats.Conn, configured int) int {
	limit := math.MaxInt
	if configured > 0 {
		limit = configured
	}
	if server := nc.MaxPayload(); server > headRoom {
		limit = min(limit, int(server)-headRoom)
	}
	return limit
}
