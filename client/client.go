package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
)

// Options configure a Client. Endpoints is required.
type Options struct {
	// Endpoints are the addresses of servers of one cluster, each host:port or http://host:port. The first that answers
	// is used until it fails.
	Endpoints []string
	// Timeout bounds a call whose context has no deadline, all its tries together; default 30 s. Streams have no bound.
	Timeout time.Duration
	// AttemptTimeout bounds one try of a call, after which the next server is asked; default 10 s.
	AttemptTimeout time.Duration
	// LocalReads lets a read be answered from whatever view the server has. By default reads wait until the server has
	// caught up with everything that this client has seen.
	LocalReads bool
	// Gather, where it is not 0, lets the commands of calls of Propose that wait at the same time share a request, and is
	// how many such requests may be under way at once: 2 for tens of goroutines, 8 for a thousand are good values. A call that finds one free goes at once:
	// nobody waits for company. Each command keeps its own answer, and a call its own context. It is for programs in which
	// many goroutines propose at once through one client: a request costs both sides far more than a command in it.
	Gather int
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.AttemptTimeout <= 0 {
		o.AttemptTimeout = 10 * time.Second
	}
	return o
}

// Bounds of the client's side.
const (
	maxAnswerBytes = 64 << 20 // a decoded row of the log is the largest
	pingAfter      = 10 * time.Second
	pingTimeout    = 5 * time.Second
	connectTimeout = 5 * time.Second
	pauseMin       = 20 * time.Millisecond // between two rounds through the servers
	pauseMax       = 2 * time.Second
)

// Client is a connection to a cluster. All methods may be called at once from many goroutines.
//
// The embedded Reader answers queries as fresh as Options say; Reading gives others.
type Client struct {
	Reader
	o         Options
	session   *session.Session
	gather    *gatherer // nil: each call is a request of its own
	endpoints []*endpoint
	current   atomic.Uint64 // the endpoint in use is this, modulo their number
	closing   chan struct{} // closed when the client is

	mu   sync.Mutex // guards seen, and closing closing
	seen At         // the highest index of any answer, and its incarnation
}

var _ meta.Proposer = (*Client)(nil)

// endpoint is one server.
type endpoint struct {
	address string
	conn    *grpc.ClientConn
}

// Open makes a client and asks each server in turn how it stands until one answers; the error names why none did. It
// does not retry: a program that may start before its servers calls it again.
func Open(ctx context.Context, o Options) (*Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("open client: no endpoints are given")
	}
	if o.Gather < 0 {
		return nil, fmt.Errorf("open client: Gather is %d, at least 0 is needed", o.Gather)
	}
	c := newClient(o)
	for _, e := range o.Endpoints {
		address, err := addressOf(e)
		if err == nil {
			err = c.add(address)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open client: endpoint %q: %w", e, err), c.Close())
		}
	}
	var errs []error
	for _, e := range c.endpoints {
		err := c.ask(ctx, e)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", e.address, err))
		c.leave(e)
	}
	return nil, errors.Join(fmt.Errorf("open client: no server answers: %w", errors.Join(errs...)), c.Close())
}

// newClient returns a client that has no endpoints yet.
func newClient(o Options) *Client {
	c := &Client{o: o.withDefaults(), session: session.New(), closing: make(chan struct{})}
	if o.Gather > 0 {
		c.gather = newGatherer(c, o.Gather)
	}
	c.Reader = Reader{c: c}
	return c
}

// ask asks a server how it stands.
func (c *Client) ask(ctx context.Context, e *endpoint) error {
	within, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := e.conn.Invoke(within, methodStatus, &pb.StatusRequest{}, new(pb.StatusResponse)); err != nil {
		return c.judge(ctx.Err(), err).err
	}
	return nil
}

func (c *Client) add(address string) error {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(methods(c.o.AttemptTimeout)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes), grpc.ForceCodecV2(api.Codec(encoding.GetCodecV2(proto.Name)))),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout,
			Backoff: backoff.Config{BaseDelay: pauseMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: pauseMax}}),
		grpc.WithIdleTimeout(0),
	)
	if err != nil {
		return err
	}
	c.endpoints = append(c.endpoints, &endpoint{address: address, conn: conn})
	return nil
}

// addressOf reads an endpoint.
func addressOf(endpoint string) (string, error) {
	if strings.HasPrefix(endpoint, "https://") {
		return "", errors.New("encrypted connections are not supported yet; http:// or host:port are")
	}
	a := strings.TrimSuffix(strings.TrimPrefix(endpoint, "http://"), "/")
	host, port, err := net.SplitHostPort(a)
	unfit := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("/ @?#", r) }
	if err != nil || port == "" || strings.ContainsFunc(host+port, unfit) {
		return "", errors.New("not host:port")
	}
	return a, nil
}

// Close ends the client. Calls under way end in an error; what they proposed may have taken effect.
func (c *Client) Close() error {
	if !c.close() {
		return nil
	}
	var errs []error
	for _, e := range c.endpoints {
		errs = append(errs, e.conn.Close())
	}
	if c.gather != nil {
		c.gather.close()
	}
	return errors.Join(errs...)
}

// close reports whether the client was open.
func (c *Client) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed() {
		return false
	}
	close(c.closing)
	return true
}

func (c *Client) closed() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// Seen returns the highest index that the client has been told, and its incarnation; At.Age is 0.
func (c *Client) Seen() At {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// see remembers an index. One of another incarnation begins anew: what was seen before means nothing there.
func (c *Client) see(index uint64, incarnation string) {
	if incarnation == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if incarnation != c.seen.Incarnation {
		c.seen = At{Index: index, Incarnation: incarnation}
	}
	c.seen.Index = max(c.seen.Index, index)
}

// forget drops what was seen in an incarnation that the servers no longer have.
func (c *Client) forget(incarnation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.Incarnation == incarnation {
		c.seen = At{}
	}
}
