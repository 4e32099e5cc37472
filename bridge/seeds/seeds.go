// Package seeds serves the routes of two other systems, camellia-delay-queue and sdmq, so that their clients need not
// change. docs/seeds.md tells what differs.
package seeds

import (
	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// Doors are the routes of both systems.
type Doors struct{ camellia *camellia }

// door is what both need: the server that they are routes of, its operations and the settings of topics.
type door struct {
	*api.Server
	ops    *ops.Ops
	topics *scheduler.Topics // nil for none
}

// Mount adds the routes to a server. It must be called before the server serves.
func Mount(on *api.Server, topics *scheduler.Topics, stats *Stats) *Doors {
	d := &door{Server: on, ops: on.Ops(), topics: topics}
	doors := &Doors{&camellia{door: d, stats: stats}}
	on.Mount(doors.camellia.routes()...)
	on.Mount((&sdmq{d}).routes()...)
	return doors
}

// Close returns what consumers have sent back and no poll has got. Call it once the server has stopped.
func (d *Doors) Close() { d.camellia.endBacks(d.camellia.backs.end()) }
