package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// Migrate brings the tables of the journal's database up to date, and returns the versions before and after.
func Migrate(ctx context.Context, cfg config.Serve, log zerolog.Logger) (from, to int64, err error) {
	return journal.Migrate(ctx, journal.Config{
		DSN: cfg.Journal.DSN.Reveal(), Namespace: cfg.Namespace, Log: log.With().Str("ns", cfg.Namespace).Logger(),
	})
}

// MoveReport reports what Move did.
type MoveReport struct {
	journal.CopyReport
	// Carried counts the messages carried from the embedded NATS.
	Carried intake.Carried
	// Embedded reports that the instance had an embedded NATS.
	Embedded bool
}

// ErrLeftOver reports that the embedded NATS holds messages that would be lost.
var ErrLeftOver = errors.New("the embedded NATS still holds messages of tarry")

// Move migrates an instance on one machine to several instances: it copies the journal in a SQLite file into the
// database that the settings name, from which the new instances fill an empty Redis at their first start. The old
// instance must have stopped; its directory and journal stay locked meanwhile. If its NATS was embedded and its intake
// or rejects hold messages, Move carries them to the NATS that the settings name if carry is set, and returns
// ErrLeftOver otherwise. Move may be repeated. The source's journal is not changed.
func Move(ctx context.Context, cfg config.Serve, file string, carry bool, log zerolog.Logger,
	progress func(MoveReport)) (report MoveReport, err error) {
	log = log.With().Str("ns", cfg.Namespace).Logger()
	var open closers
	defer func() { err = errors.Join(err, open.Close()) }()
	if _, err := os.Stat(filepath.Join(cfg.Data, lockFile)); err != nil { // locking it would create it
		return report, fmt.Errorf("data %q is no directory of a tarry: %w", cfg.Data, err)
	}
	if err := open.lockData(cfg.Data); err != nil {
		return report, err
	}
	from := journal.Config{DSN: sqliteScheme + file, Namespace: cfg.Namespace,
		MaxRow: cfg.HTTP.LargestMessage(), Migrate: true, Log: log}
	if err := open.lockJournal(from.DSN); err != nil {
		return report, err
	}

	var old *nats.Conn
	streams := filepath.Join(cfg.Data, jetStreamFile)
	if _, err := os.Stat(streams); err == nil {
		report.Embedded = true
		if old, err = reopenNATS(ctx, &open, streams, log); err != nil {
			return report, err
		}
		left, err := intake.Leftover(ctx, old, cfg.Namespace)
		if err != nil {
			return report, fmt.Errorf("look into the embedded NATS: %w", err)
		}
		if left != (intake.Left{}) && !carry {
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
	report.Carried, err = carryOver(ctx, &open, cfg, old, to)
	return report, err
}

// reopenNATS serves the streams of an embedded NATS to this process only, because its token is not known here.
func reopenNATS(ctx context.Context, open *closers, streams string, log zerolog.Logger) (*nats.Conn, error) {
	ns, err := open.embedNATS(ctx, embedded{name: "tarry-migrate", dir: streams, durable: true, log: log})
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS: %w", err)
	}
	open.onClose("the connection to NATS", nc.Close)
	return nc, nil
}

// connected returns an error without a connection, for which an instance would wait.
func connected(ctx context.Context, nc *nats.Conn) error {
	if nc.IsConnected() {
		return nil
	}
	return errors.Join(fmt.Errorf("connect to nats.url: %w", nc.LastError()), ctx.Err())
}

func carryOver(ctx context.Context, open *closers, cfg config.Serve, old *nats.Conn,
	to journal.Config) (intake.Carried, error) {
	copied, err := journal.Open(ctx, to) // it has all of the old one
	if err != nil {
		return intake.Carried{}, err
	}
	open.onStop("the journal", copied.Close)
	nc, err := connect(ctx, cfg.NATS, link.ConnConfig{URLs: cfg.NATS.URL, Name: "tarry migrate", Log: to.Log})
	if err != nil {
		return intake.Carried{}, err
	}
	if err := connected(ctx, nc); err != nil {
		return intake.Carried{}, err
	}
	open.onClose("the connection to NATS", nc.Close)
	return intake.Carry(ctx, intake.CarryConfig{
		From: old, To: nc, Namespace: cfg.Namespace, Prefix: cfg.NATS.Prefix, Replicas: cfg.NATS.Intake.Replicas,
		MaxBytes:    cfg.NATS.Intake.MaxBytes,
		RejectBytes: cfg.NATS.Rejects.MaxBytes, RejectsPerSubject: int64(cfg.NATS.Rejects.PerSubject),
		SizeLimit: cfg.HTTP.LargestMessage(),
		Known: func(ctx context.Context, uid message.UID) (bool, error) {
			found, err := copied.Versions(ctx, []message.UID{uid})
			return len(found) > 0, err
		},
		Reject: func(ctx context.Context, r *scheduler.Rejected) error {
			at := message.Milli(time.Now().UnixMilli())
			return copied.Write(ctx, nil, []record.Change{{UID: r.UID, At: at, Rejected: r}})
		},
		Log: to.Log,
	})
}
