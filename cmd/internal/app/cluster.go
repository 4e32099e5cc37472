package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
)

// node is this instance's membership in the cluster.
type node interface {
	Run(ctx context.Context) error
	Members(ctx context.Context) ([]election.Member, error)
	Gone(ctx context.Context) ([]election.Gone, error)
	Forget(ctx context.Context, instance string) error
}

// race is the leadership for which instances compete.
type race interface {
	Leader(ctx context.Context) (election.Leader, bool, error)
	Resign(ctx context.Context, reason string) error
	State() election.State
}

// cluster shows the election to the HTTP API.
type cluster struct {
	node node
	race race
	// ask asks another instance, the leader, to resign.
	ask func(ctx context.Context, instance, reason string) error
}

// view is what one look at the election shows.
type view struct {
	led     bool
	leader  election.Leader // if led
	leads   election.Member // likewise; the zero Member if it is not registered
	members []election.Member
}

// look asks the election.
func (c *cluster) look(ctx context.Context) (v view, err error) {
	if v.leader, v.led, err = c.race.Leader(ctx); err == nil {
		v.members, err = c.node.Members(ctx)
	}
	if err != nil {
		return view{}, fmt.Errorf("%w: %w", ops.ErrUnreachable, err)
	}
	for _, m := range v.members {
		if v.led && m.Instance == v.leader.Instance {
			v.leads = m
		}
	}
	return v, nil
}

// Cluster returns the instances and their roles.
func (c *cluster) Cluster(ctx context.Context) (ops.Cluster, error) {
	v, err := c.look(ctx)
	if err != nil {
		return ops.Cluster{}, err
	}
	info := v.cluster()
	gone, err := c.node.Gone(ctx)
	if err != nil {
		return ops.Cluster{}, fmt.Errorf("%w: %w", ops.ErrUnreachable, err)
	}
	for _, g := range gone {
		info.Instances = append(info.Instances, ops.Instance{Instance: g.Instance, Address: g.Address,
			Role: ops.RoleGone, Version: g.Version, Seen: ops.FormatTime(g.Seen.UnixMilli())})
	}
	return info, nil
}

// cluster returns the instances that are registered, and their roles.
func (v *view) cluster() ops.Cluster {
	info := ops.Cluster{Term: v.leader.Term}
	if v.led {
		info.Leader = &ops.Leader{Instance: v.leader.Instance, Address: v.leader.Address,
			Since: ops.FormatTime(v.leader.Since.UnixMilli())}
	}
	for _, m := range v.members {
		role := ops.RoleStandby
		if v.led && m.Instance == v.leader.Instance {
			role = ops.RoleLeader
		}
		info.Instances = append(info.Instances,
			ops.Instance{Instance: m.Instance, Address: m.Address, Role: role, Version: m.Version,
				Ready: !m.Unready && (m.Settings != "" || m.Healthy), // an older instance says only whether it could lead
				Lacks: words(m.Lacks), CanLead: m.Healthy,
				Differs:    config.Differing(m.Settings, v.leads.Settings),
				Restored:   m.Restored,
				OtherStore: v.leads.Store != "" && m.Store != "" && m.Store != v.leads.Store,
				Linked:     m.Linked && role == ops.RoleStandby})
	}
	return info
}

// words returns what stands between commas.
func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

// Forget removes an instance that is gone.
func (c *cluster) Forget(ctx context.Context, instance string) error {
	err := c.node.Forget(ctx, instance)
	switch {
	case errors.Is(err, election.ErrNotGone):
		return fmt.Errorf("%w: %s", ops.ErrNotGone, instance)
	case err != nil:
		return fmt.Errorf("%w: %w", ops.ErrUnreachable, err)
	}
	return nil
}

// Resign makes the leader, this instance or another, resign if another instance could take over.
func (c *cluster) Resign(ctx context.Context, reason string) error {
	leader, err := c.replaceable(ctx)
	if err != nil {
		return err
	}
	if err := c.race.Resign(ctx, reason); errors.Is(err, election.ErrNotLeader) {
		if err = c.ask(ctx, leader, reason); err != nil {
			return fmt.Errorf("%w: %w", ops.ErrNotLeader, err)
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// resignHere is Resign for this instance only, for requests over NATS.
func (c *cluster) resignHere(ctx context.Context, reason string) error {
	if _, err := c.replaceable(ctx); err != nil {
		return err
	}
	err := c.race.Resign(ctx, reason)
	if errors.Is(err, election.ErrNotLeader) {
		return ops.ErrNotLeader
	}
	return err
}

// replaceable returns the leader, if another instance could take over.
func (c *cluster) replaceable(ctx context.Context) (leader string, err error) {
	v, err := c.look(ctx)
	switch {
	case err != nil:
		return "", err
	case !v.led:
		return "", ops.ErrNoLeader
	case !slices.ContainsFunc(v.members, func(m election.Member) bool {
		return m.Healthy && m.Instance != v.leader.Instance
	}):
		return "", ops.ErrNoStandby
	}
	return v.leader.Instance, nil
}
