package store

import (
	"context"
	"errors"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
)

// Create makes log a new cluster, unless one lives there already: of several processes that start at once, one does.
func Create(ctx context.Context, log oplog.Log) error {
	_, err := headwater.Init(ctx, log)
	if errors.Is(err, oplog.ErrExists) {
		return nil
	}
	return err
}
