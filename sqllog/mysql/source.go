package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// source is where connections come from.
type source interface {
	// connect makes a connection and has settle set it up; what settle refuses is closed.
	connect(ctx context.Context, settle func(driver.Conn) (look, error)) (driver.Conn, look, error)
	// idle is how many of at most n connections stay open while there is nothing to do.
	idle(n int) int
	// location tells where, without a secret.
	location() string
}

// direct opens connections by itself, to the first of its hosts that is fit.
type direct struct {
	hosts    []host
	where    string
	readOnly bool // a server that is read-only is as good as any
	gate     sqllog.Gate
	last     atomic.Int64 // place in hosts of the last one that was fit
}

type host struct {
	name      string
	connector driver.Connector
}

func (d *direct) idle(n int) int   { return n }
func (d *direct) location() string { return d.where }

func (d *direct) connect(ctx context.Context, settle func(driver.Conn) (look, error)) (c driver.Conn, l look, err error) {
	err = d.gate.Pass(ctx, func() error {
		c, l, err = d.dial(ctx, settle)
		return err
	})
	return c, l, err
}

// dial tries each host once, beginning with the last one that was fit. One that is read-only is kept for the case that
// all are.
func (d *direct) dial(ctx context.Context, settle func(driver.Conn) (look, error)) (driver.Conn, look, error) {
	var reserve driver.Conn
	var reserveLook look
	var failed error
	first := int(d.last.Load())
	for i := range d.hosts {
		at := (first + i) % len(d.hosts)
		c, l, err := d.hosts[at].connect(ctx, settle)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case l.readOnly() && !d.readOnly && reserve == nil && len(d.hosts) > 1:
			reserve, reserveLook = c, l
		default:
			if reserve != nil {
				_ = reserve.Close()
			}
			d.last.Store(int64(at))
			return c, l, nil
		}
	}
	if reserve != nil {
		return reserve, reserveLook, nil
	}
	return nil, look{}, sqllog.OneLine(failed)
}

func (h host) connect(ctx context.Context, settle func(driver.Conn) (look, error)) (driver.Conn, look, error) {
	c, err := h.connector.Connect(ctx)
	if err != nil {
		return nil, look{}, fmt.Errorf("connect to %s: %w", h.name, err)
	}
	l, err := settle(c)
	if err != nil {
		_ = c.Close()
		return nil, look{}, fmt.Errorf("connect to %s: %w", h.name, err)
	}
	return c, l, nil
}

// errDSN never repeats what it was given: it may hold a password.
var errDSN = fmt.Errorf("the connection string cannot be read: it must be mysql://user:password@host:port/database?tls=true, where ? and %% in a name or password are written as %%3F and %%25, and @ in a parameter as %%40, or user:password@tcp(host:port)/database?tls=true: %w", oplog.ErrSettings)

// address is a connection string taken apart. The driver's own parser reads the rest.
type address struct {
	user, password string
	network        string
	hosts          []string
	database       string
	query          string
}

// parse reads the connection string of o.
func parse(o Options) (*direct, error) {
	a, err := parseAddress(o.DSN)
	if err != nil {
		return nil, err
	}
	query, security, err := secure(a.query)
	if err != nil {
		return nil, err
	}
	d := &direct{readOnly: o.ReadOnly, where: "mysql://" + a.user + "@" + strings.Join(a.hosts, ",") + "/" + a.database}
	for _, h := range a.hosts {
		c, err := mysql.ParseDSN(a.network + "(" + h + ")/" + url.PathEscape(a.database) + "?" + query)
		if err != nil {
			return nil, errDSN
		}
		c.User, c.Passwd = a.user, a.password
		if security != nil {
			t := security.Clone()
			t.ServerName, _, _ = net.SplitHostPort(h)
			c.TLS, c.TLSConfig = t, ""
		}
		connector, err := mysql.NewConnector(prepare(c, o))
		if err != nil {
			return nil, fmt.Errorf("the connection string cannot be used: %w", oplog.ErrSettings)
		}
		d.hosts = append(d.hosts, host{name: h, connector: connector})
	}
	return d, nil
}

func parseAddress(dsn string) (a address, err error) {
	if rest, ok := strings.CutPrefix(dsn, "mysql://"); ok {
		a, err = parseURL(rest)
	} else {
		a, err = parseNative(dsn)
	}
	if err != nil || a.database == "" || len(a.hosts) == 0 {
		return a, errDSN
	}
	return a, nil
}

// parseURL reads what follows mysql://. It is not for net/url, which takes no list of hosts. The last @ ends the password,
// whatever that holds: taken for a host or a database, a part of it would be shown to everybody.
func parseURL(rest string) (a address, err error) {
	rest, a.query, _ = strings.Cut(rest, "?")
	at := strings.LastIndex(rest, "@")
	if strings.Contains(a.query, "@") {
		return a, errDSN // the ? may stand in the password; in a parameter @ is written as %40
	}
	authority, database, _ := strings.Cut(rest[at+1:], "/")
	if at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		var err1, err2 error
		a.user, err1 = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if err := errors.Join(err1, err2); err != nil {
			return a, err
		}
	}
	if a.database, err = url.PathUnescape(database); err != nil {
		return a, err
	}
	a.network = "tcp"
	for h := range strings.SplitSeq(authority, ",") {
		name, port := h, "3306"
		if n, p, err := net.SplitHostPort(h); err == nil {
			name, port = n, p
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || strings.Contains(name, "/") {
			return a, errDSN
		}
		name = strings.Trim(name, "[]")
		if name == "" {
			name = "127.0.0.1"
		}
		a.hosts = append(a.hosts, net.JoinHostPort(name, port))
	}
	return a, nil
}

// parseNative reads the form of the driver.
func parseNative(dsn string) (a address, err error) {
	slash := strings.LastIndex(dsn, "/")
	if slash < 0 {
		return a, errDSN
	}
	bare := dsn
	if i := strings.Index(dsn[slash:], "?"); i >= 0 {
		bare, a.query = dsn[:slash+i], dsn[slash+i+1:]
	}
	c, err := mysql.ParseDSN(bare)
	if err != nil {
		return a, err
	}
	a.user, a.password, a.network, a.hosts, a.database = c.User, c.Passwd, c.Net, []string{c.Addr}, c.DBName
	return a, nil
}

// secure takes the parameters that name PEM files out of a query and makes a TLS configuration of them; nil without any.
func secure(query string) (rest string, config *tls.Config, err error) {
	files := map[string]string{}
	var others []string
	for p := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(p, "=")
		if name != "ssl-ca" && name != "ssl-cert" && name != "ssl-key" {
			others = append(others, p)
		} else if files[name], err = url.QueryUnescape(value); err != nil {
			return "", nil, errDSN
		}
	}
	rest = strings.Join(others, "&")
	if len(files) == 0 {
		return rest, nil, nil
	}
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := files["ssl-ca"]; ca != "" {
		pem, err := os.ReadFile(ca)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return "", nil, fmt.Errorf("ssl-ca %s: not a file of certificates: %w", ca, oplog.ErrSettings)
		}
	}
	if cert, key := files["ssl-cert"], files["ssl-key"]; cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return "", nil, fmt.Errorf("ssl-cert %s and ssl-key %s: not a certificate with its key: %w", cert, key, oplog.ErrSettings)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return rest, config, nil
}

// prepare makes the driver behave as the log needs it, whatever the connection string says.
func prepare(c *mysql.Config, o Options) *mysql.Config {
	if c.Timeout == 0 || c.Timeout > o.ConnectTimeout {
		c.Timeout = o.ConnectTimeout
	}
	// The contexts of statements end earlier; these are for the talk around them.
	c.ReadTimeout, c.WriteTimeout = o.StatementTimeout+time.Second, o.StatementTimeout+time.Second
	c.MaxAllowedPacket = 0        // ask the server
	c.InterpolateParams = false   // values never become part of a text
	c.MultiStatements = false     // and a text never becomes two
	c.AllowAllFiles = false       // nor a request for our files
	c.ClientFoundRows = false     // an update counts what it changed
	c.RejectReadOnly = false      // told by number
	c.CheckConnLiveness = true    // before something is sent
	c.ParseTime = false           // there are no times
	c.Logger = &mysql.NopLogger{} // errors are returned
	dialer := &net.Dialer{
		Timeout: o.ConnectTimeout,
		// A server that has gone without a goodbye is noticed after some 11 s where nothing is under way.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}
	c.DialFunc = dialer.DialContext
	return c
}
