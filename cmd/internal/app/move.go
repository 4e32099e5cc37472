package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/store/journal"
)

// MoveReport is what Move has done.
type MoveReport struct {
	journal.CopyReport
	// Carried is what came over from the embedded NATS.
	Carried bridge.Carried
	// Embedded: the instance had an embedded NATS.
	Embedded bool
}

// ErrLeftOver: the embedded NATS holds what would be lost.
var ErrLeftOver = errors.New("the embedded NATS still holds messages of tarry")

// Move is the road from one machine to several instances: it copies the journal in a SQLite file into the database that
// the settings name, from which the new instances fill an empty Redis at their first start. The instance of before must
// have stopped; its directory and journal stay locked meanwhile. Where its NATS was embedded, what the intake and the
// rejects hold there goes to the NATS that the settings name if carry is set, and is ErrLeftOver otherwise. It may be
// repeated. The source's journal stays as it is.
func Move(ctx context.Context, cfg config.Migrate, file string, carry bool, log zerolog.Logger,
	progress func(MoveReport)) (report MoveReport, err error) {
	log = log.With().Str("ns", cfg.Namespace).Logger()
	p := parts{options: Options{Log: log}}
	defer func() { closeAll(p.close) }()
	if _, err := os.Stat(filepath.Join(cfg.Data, lockFile)); err != nil { // to lock it would make it
		return report, fmt.Errorf("data %q is no directory of a tarry: %w", cfg.Data, err)
	}
	if err := p.lockData(ctx, cfg.Data); err != nil {
		return report, err
	}
	from := journal.Config{DSN: sqliteScheme + file, Namespace: cfg.Namespace,
		MaxRow: int(cfg.HTTP.BodyLimit) - rowSlack, Migrate: true, Log: log}
	if err := p.lockJournal(ctx, from.DSN); err != nil {
		return report, err
	}

	var old *nats.Conn
	streams := filepath.Join(cfg.Data, jetStreamFile)
	if _, err := os.Stat(streams); err == nil {
		report.Embedded = true
		if old, err = p.reopenNATS(ctx, streams); err != nil {
			return report, err
		}
		left, err := bridge.Leftover(ctx, old, cfg.Namespace)
		if err != nil {
			return report, fmt.Errorf("look into the embedded NATS: %w", err)
		}
		if left != (bridge.Left{}) && !carry {
			return report, fmt.Errorf("%w: %d pushes in the intake and %d rejects; let the instance run until its "+
				"intake is empty, or carry them over",
				ErrLeftOver, left.Intake, left.Rejects)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("look for the embedded NATS: %w", err)
	}

	to := from
	to.DSN = cfg.Journal.DSN.Reveal()
	report.CopyReport, err = journal.Copy(ctx, from, to, func(r journal.CopyReport) {
		report.CopyReport = r
		if progress != nil {
			progress(report)
		}
	})
	if err != nil || old == nil || !carry {
		return report, err
	}
	report.Carried, err = p.carry(ctx, cfg, old, from)
	return report, err
}

// reopenNATS serves the streams of an embedded NATS to this process, and to no other: its token is not known here.
func (p *parts) reopenNATS(ctx context.Context, streams string) (*nats.Conn, error) {
	ns, err := p.embedNATS(ctx, embedded{name: "tarry-migrate", dir: streams, durable: true})
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS: %w", err)
	}
	p.close = append(p.close, nc.Close)
	return nc, nil
}

func (p *parts) carry(ctx context.Context, cfg config.Migrate, old *nats.Conn,
	from journal.Config) (bridge.Carried, error) {
	accepted, err := journal.Open(ctx, from)
	if err != nil {
		return bridge.Carried{}, err
	}
	p.close = append(p.close, func() { _ = accepted.Close() })
	nc, err := connectNATS(ctx, cfg.NATS,
		bridge.ConnConfig{URLs: cfg.NATS.URL, Name: "tarry migrate", Log: p.options.Log})
	if err != nil {
		return bridge.Carried{}, err
	}
	if !nc.IsConnected() { // an instance would wait
		return bridge.Carried{}, errors.Join(fmt.Errorf("connect to nats.url: %w", nc.LastError()), ctx.Err())
	}
	p.close = append(p.close, nc.Close)
	return bridge.Carry(ctx, bridge.CarryConfig{
		From: old, To: nc, Namespace: cfg.Namespace, Prefix: cfg.NATS.Prefix, Replicas: cfg.NATS.Intake.Replicas,
		MaxBytes:    cfg.NATS.Intake.MaxBytes,
		RejectBytes: cfg.NATS.Rejects.MaxBytes, RejectsPerSubject: int64(cfg.NATS.Rejects.PerSubject),
		Known: func(ctx context.Context, uid scheduler.UID) (bool, error) {
			found, err := accepted.Versions(ctx, []scheduler.UID{uid})
			return len(found) > 0, err
		},
		Log: p.options.Log,
	})
}
