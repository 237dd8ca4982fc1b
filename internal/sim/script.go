package sim

import "github.com/headwaterdb/headwater/oplog"

type script struct{}

func (s *script) plan(n *node, o op, at oplog.Index) plan { return plan{} }
