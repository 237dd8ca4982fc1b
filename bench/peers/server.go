package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a server that is measured.
type process struct {
	cmd    *exec.Cmd
	addr   string // host:port
	exited chan struct{}
	log    string // the file with what it said
}

// launch starts a server whose output goes to a file. env is added to the environment.
func launch(dir string, env []string, path string, args ...string) (*process, error) {
	p := &process{exited: make(chan struct{}), log: filepath.Join(dir, filepath.Base(path)+".log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we end it
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// end ends the server: in order where it can, within a few seconds.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// await waits until the server takes connections at its address and ready, which may be nil, says yes.
func (p *process) await(ctx context.Context, ready func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last error
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			_ = c.Close()
			if ready != nil {
				err = ready(ctx)
			}
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.exited:
			said, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended: %s", filepath.Base(p.cmd.Path), said)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", filepath.Base(p.cmd.Path), errors.Join(last, ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startEtcd starts one etcd node with its defaults, which are durable, but for its log and for room enough on the disk.
func startEtcd(ctx context.Context, bin, dir string, env ...string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	peer, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := launch(dir, env, bin, "--name=one", "--data-dir="+filepath.Join(dir, "data"), "--log-level=error",
		"--listen-client-urls=http://"+addr, "--advertise-client-urls=http://"+addr, "--listen-peer-urls=http://"+peer,
		"--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=one=http://"+peer, "--quota-backend-bytes=8589934592")
	if err != nil {
		return nil, err
	}
	p.addr = addr
	return p, p.awaitKV(ctx)
}

// kineSQLite are the parameters that kine gives SQLite by default, but for synchronous, which is FULL here: with NORMAL,
// its default, acknowledged writes may be lost with the power.
const kineSQLite = "?_journal_mode=WAL&_busy_timeout=30000&_synchronous=FULL&_txlock=immediate&_stmt_cache_size=20&cache=shared"

// startKine starts kine on a database. It takes a connection for each call that waits, and by default keeps 20 of them: with
// more callers it would open others all the time, at a third of the rate. A bound on those that are open stops it altogether.
func startKine(ctx context.Context, bin, dir, endpoint string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := launch(dir, nil, bin, "--listen-address=tcp://"+addr, "--endpoint="+endpoint, "--metrics-bind-address=0", "--datastore-max-idle-connections=1100",
		"--slow-sql-threshold=0", "--slow-sql-warning-threshold=0")
	if err != nil {
		return nil, err
	}
	p.addr = addr
	return p, p.awaitKV(ctx)
}

// awaitKV waits until an etcd API answers.
func (p *process) awaitKV(ctx context.Context) error {
	err := p.await(ctx, func(ctx context.Context) error {
		c, err := etcdClient(p.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = c.Get(ctx, "ready")
		return err
	})
	if err != nil {
		p.end()
	}
	return err
}

// startServe starts headwater serve.
func startServe(ctx context.Context, bin, dir, db string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := launch(dir, nil, bin, "serve", "--db", db, "--init", "--listen", addr, "--log-level", "warn", "--log-format", "json")
	if err != nil {
		return nil, err
	}
	p.addr = addr
	if err := p.await(ctx, func(ctx context.Context) error { return headwaterAnswers(ctx, addr) }); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// startEcho starts a gRPC server that answers each proposal at once, and does nothing else.
func startEcho(dir, bin string) (*process, error) {
	p := &process{exited: make(chan struct{}), cmd: exec.Command(bin, "-serve", "grpc")}
	p.cmd.Dir = dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	if err != nil {
		p.end()
		return nil, fmt.Errorf("start the echo: %w", err)
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// memory is the resident memory of a process, in MiB.
func (p *process) memory() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb float64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0, err
			}
			return kb / 1024, nil
		}
	}
	return 0, errors.New("the system does not tell the resident memory of a process")
}
