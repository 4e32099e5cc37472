package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tarry-mq/tarry/scheduler"
)

// MaxParked is the maximum number of lanes in an answer.
const MaxParked = 100

// Nothing is a request without fields.
type Nothing struct{}

// ClusterAsked asks for the instances, and for what each tells of itself.
type ClusterAsked struct {
	Detail bool `json:"detail"`
}

// cluster lists the instances, and tells how this one does.
func (o *Ops) cluster(ctx context.Context, _ *Caller, in *ClusterAsked) (*Cluster, error) {
	a, err := o.Cluster.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	a.Namespace = o.Namespace
	if a.Instances == nil {
		a.Instances = []Instance{}
	}
	if lanes, err := o.Service.HeldLanes(ctx); err == nil { // without the lanes, the answer has the instances
		for _, l := range lanes[:min(len(lanes), MaxParked)] {
			a.Parked = append(a.Parked, scheduler.Parked{Lane: l.Lane, Why: l.Detail})
		}
	}
	if o.JournalMode != "" {
		a.Journal = &JournalState{Mode: o.JournalMode}
		if o.Journal != nil {
			a.Journal.Lag = o.lag(ctx)
		}
	}
	a.Checks = o.Checks(ctx)
	if o.Clocks != nil {
		if err := o.Clocks(); err != nil {
			a.Clocks = err.Error()
		}
	}
	if in.Detail {
		told, err := o.details.get(ctx, nil, viewsKeep, o.Timeout, o.Details)
		if err != nil {
			return nil, err
		}
		for i := range a.Instances {
			one := &a.Instances[i]
			if one.Detail = told[one.Instance]; one.Detail == nil && one.Role != RoleGone {
				a.Missing = append(a.Missing, one.Instance)
			}
		}
	}
	return &a, nil
}

// Reason says why.
type Reason struct {
	Reason string `json:"reason"`
}

// resign makes the leader step down, for maintenance, and answers once it has.
func (o *Ops) resign(ctx context.Context, by *Caller, in *Reason) (map[string]bool, error) {
	o.Begin(ctx, by.Audit("resign", false).Str("reason", in.Reason))
	err := o.Cluster.Resign(ctx, in.Reason)
	if errors.Is(err, ErrNotLeader) {
		err = o.notLeader(ctx, err)
	}
	return map[string]bool{"resigned": true}, err
}

// InstanceName names an instance.
type InstanceName struct {
	Instance string `json:"instance"`
}

// forget removes an instance that is gone from those that are listed.
func (o *Ops) forget(ctx context.Context, by *Caller, in *InstanceName) (map[string]bool, error) {
	o.Begin(ctx, by.Audit("forget", false).Str("instance", in.Instance))
	return map[string]bool{"forgotten": true}, o.Cluster.Forget(ctx, in.Instance)
}

// notLeader names the leader, so that the caller can send its request there.
func (o *Ops) notLeader(ctx context.Context, err error) error {
	detail := err.Error()
	if info, err := o.Cluster.Cluster(ctx); err == nil && info.Leader != nil {
		detail += fmt.Sprintf("; %s at %s does", info.Leader.Instance, info.Leader.Address)
	}
	return Refuse(http.StatusConflict, WordNotLeader, "%s", detail)
}
