package sqllog

import (
	"fmt"
	"regexp"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// CheckName refuses, with oplog.ErrSettings, a name that would need quotes in a statement or leave no room for what is
// added to it: what says whose name it is. Allowed are a lower-case letter and up to 39 lower-case letters, digits and
// underscores.
func CheckName(what, name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%s %q: must be a lower-case letter and at most 39 more letters, digits and underscores: %w", what, name, oplog.ErrSettings)
	}
	return nil
}

// ServerOptions points at those options of a server's dialect that every server has, so that they have the same defaults
// and bounds everywhere. All must be set.
type ServerOptions struct {
	Prefix                                                                         *string
	PollInterval, IdlePollInterval, ConnectTimeout, StatementTimeout, RetryTimeout *time.Duration
	MaxConnections, MaxValueBytes                                                  *int
}

// minValue is the least that MaxValueBytes may be.
const minValue = 64 << 10

// SetDefaults fills in what was left zero. poll is the default of PollInterval, which differs.
func (o ServerOptions) SetDefaults(poll time.Duration) {
	def(o.Prefix, "headwater")
	def(o.PollInterval, poll)
	def(o.IdlePollInterval, max(300*time.Millisecond, *o.PollInterval)) // an idle node sends at most five statements a second
	def(o.ConnectTimeout, 5*time.Second)
	def(o.StatementTimeout, 5*time.Second)
	def(o.RetryTimeout, 2*time.Second)
	def(o.MaxConnections, 6)
	def(o.MaxValueBytes, oplog.MaxPayload)
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Validate refuses, with oplog.ErrSettings, what makes no sense. connections is the least that MaxConnections may be.
func (o ServerOptions) Validate(connections int) error {
	switch {
	case *o.PollInterval < 0, *o.IdlePollInterval < *o.PollInterval:
		return fmt.Errorf("poll intervals %v and %v: must be above 0, the second not below the first: %w", *o.PollInterval, *o.IdlePollInterval, oplog.ErrSettings)
	case *o.ConnectTimeout < 0, *o.StatementTimeout < 0, *o.RetryTimeout < 0:
		return fmt.Errorf("timeouts to connect %v, for a statement %v, to repeat %v: must be above 0: %w", *o.ConnectTimeout, *o.StatementTimeout, *o.RetryTimeout, oplog.ErrSettings)
	case *o.MaxValueBytes < minValue || *o.MaxValueBytes > oplog.MaxPayload:
		return fmt.Errorf("values of at most %d bytes: must be %d to %d: %w", *o.MaxValueBytes, minValue, oplog.MaxPayload, oplog.ErrSettings)
	case *o.MaxConnections < connections:
		return fmt.Errorf("at most %d connections: must be %d or more: %w", *o.MaxConnections, connections, oplog.ErrSettings)
	}
	return CheckName("prefix", *o.Prefix)
}
