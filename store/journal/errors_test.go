package journal_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

func TestRetryable_BlamesRowsForNothingElse(t *testing.T) {
	t.Parallel()
	long := &mysql.MySQLError{Number: 1105, SQLState: [5]byte([]byte("HY000")), Message: "Parameter of prepared " +
		"statement which is set through mysql_send_long_data() is longer than 'max_allowed_packet' bytes"}
	my := func(number uint16, state string) error {
		e := &mysql.MySQLError{Number: number}
		copy(e.SQLState[:], state)
		return fmt.Errorf("write messages: %w", e)
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{scheduler.ErrFenced, false},
		{fmt.Errorf("journal: %w: no", journal.ErrUnfit), false},
		{my(1406, "22001"), false}, // data too long
		{my(1264, "22003"), false}, // out of range
		{my(1366, "HY000"), false}, // incorrect string
		{my(1062, "23000"), false}, // duplicate
		{my(1048, "23000"), false}, // null
		{my(1153, "08S01"), false}, // packet too large
		{mysql.ErrPktTooLarge, false},
		{fmt.Errorf("write messages: %w", long), false},
		{my(1105, "HY000"), true}, // unknown
		{fmt.Errorf("find: %w", scheduler.ErrUnreadable), false},
		{my(1213, "40001"), true}, // deadlock
		{my(1205, "HY000"), true}, // lock wait
		{my(1021, "HY000"), true}, // disk full
		{my(1114, "HY000"), true}, // table full
		{my(1053, "08S01"), true}, // shutting down
		{my(1290, "HY000"), true}, // read only
		{my(1040, "08004"), true}, // too many connections
		{my(1045, "28000"), true}, // access denied
		{my(1146, "42S02"), true}, // no such table
		{my(1317, "70100"), true}, // killed
		{my(9999, ""), true},
		{driver.ErrBadConn, true},
		{mysql.ErrInvalidConn, true},
		{sql.ErrConnDone, true},
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{context.DeadlineExceeded, true},
		{context.Canceled, true},
		{errors.New("something else"), true},
	} {
		if got := journal.Retryable(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

func TestWrite_RefusesWhatNoDatabaseTakes(t *testing.T) {
	inEach(t, func(t *testing.T, dsn string) {
		s := open(t, dsn)
		good, err := message.IntakeUID(1, message.Milli(1_900_000_000_000).Time(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []record.Change{{UID: "", Version: 1}, {UID: "t-ÄÄÄÄÄÄÄÄ", Version: 1},
			{UID: good + "0", Version: 1}, {UID: good}} {
			err := s.Write(t.Context(), nil,
				[]record.Change{{UID: good, Version: 1, State: message.StateWaiting}, c})
			if err == nil || journal.Retryable(err) {
				t.Errorf("%q at version %d: got %v, want an error for good", c.UID, c.Version, err)
			}
		}
		if found, err := s.Versions(t.Context(), []message.UID{good}); err != nil || len(found) != 0 {
			t.Errorf("versions %v, %v; want none", found, err)
		}
	})
}
