package proxy_test

import (
	"os"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
