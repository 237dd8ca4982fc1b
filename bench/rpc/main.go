// Command rpc measures ways to serve and to call the API's Propose: an echo that answers each command at once, over
// unencrypted HTTP/2 on loopback, server and client in processes of their own.
//
// It exists to repeat the figures of docs/decisions/ on the choice of the RPC layer:
//
//	go run . -servers connect,grpc,headwater -time 3s
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/internal/heap"
)

func main() {
	serve := flag.String("serve", "", "internal: run this server and print its address")
	servers := flag.String("servers", "connect,lean,grpc-http,grpc,headwater", "servers to measure")
	clients := flag.String("clients", "connect,grpc,headwater", "clients to measure")
	callers := flag.String("callers", "1,16,64,256,1024", "numbers of concurrent callers")
	conns := flag.Int("conns", 1, "connections of a client")
	took := flag.Duration("time", 2*time.Second, "time of one measurement")
	rounds := flag.Int("rounds", 3, "interleaved rounds; the median is printed")
	flag.Parse()
	if *serve != "" {
		release := heap.Hold() // as headwater serve does
		err := runServer(*serve)
		release()
		log.Fatal(err)
	}
	if err := measure(strings.Split(*servers, ","), strings.Split(*clients, ","), strings.Split(*callers, ","),
		*conns, *took, *rounds); err != nil {
		log.Fatal(err)
	}
}

// figure is one measurement.
type figure struct {
	rate float64
	p50  time.Duration
	p99  time.Duration
}

// measure runs every pair of server and client in interleaved rounds and prints a table of medians.
func measure(servers, clients, callers []string, conns int, took time.Duration, rounds int) error {
	got := map[string][]figure{}
	for range rounds {
		for _, s := range servers {
			addr, stop, err := startServer(s)
			if err != nil {
				return fmt.Errorf("start server %s: %w", s, err)
			}
			for _, c := range clients {
				if c == "headwater" && s != c {
					continue // the echoes serve Propose alone
				}
				for _, n := range callers {
					k, err := strconv.Atoi(n)
					if err != nil {
						return err
					}
					f, err := load(c, addr, k, conns, took)
					if err != nil {
						log.Printf("%s against %s, %d callers: %v", c, s, k, err)
						continue
					}
					key := s + " " + c + " " + n
					got[key] = append(got[key], f)
				}
			}
			stop()
		}
	}
	fmt.Printf("| server | client |")
	for _, n := range callers {
		fmt.Printf(" %s |", n)
	}
	fmt.Printf("\n|---|---|%s\n", strings.Repeat("---|", len(callers)))
	for _, s := range servers {
		for _, c := range clients {
			fmt.Printf("| %s | %s |", s, c)
			for _, n := range callers {
				fs := got[s+" "+c+" "+n]
				if len(fs) == 0 {
					fmt.Print(" – |")
					continue
				}
				slices.SortFunc(fs, func(a, b figure) int { return int(a.rate - b.rate) })
				m := fs[len(fs)/2]
				fmt.Printf(" %.0f/s %.2f/%.1f ms |", m.rate, ms(m.p50), ms(m.p99))
			}
			fmt.Println()
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// startServer runs this program again as the server called kind.
func startServer(kind string) (addr string, stop func(), err error) {
	cmd := exec.Command(os.Args[0], "-serve", kind)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, err
	}
	return strings.TrimSpace(line), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// load calls Propose from n callers for a time and returns rate and latencies.
func load(client, addr string, n, conns int, took time.Duration) (figure, error) {
	call, closeAll, err := newClient(client, addr, conns)
	if err != nil {
		return figure{}, err
	}
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), took+5*time.Second)
	defer cancel()
	for range 10 {
		if _, err := call(0, ctx, request(0)); err != nil {
			return figure{}, err
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	lat := make([][]time.Duration, n)
	errs := make([]error, n)
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			for k := uint64(1); !stop.Load(); k++ {
				t := time.Now()
				if _, err := call(i, ctx, request(k)); err != nil {
					errs[i] = err
					return
				}
				lat[i] = append(lat[i], time.Since(t))
			}
		})
	}
	time.Sleep(took)
	stop.Store(true)
	wg.Wait()
	d := time.Since(start)
	var all []time.Duration
	for i := range lat {
		if errs[i] != nil {
			return figure{}, errs[i]
		}
		all = append(all, lat[i]...)
	}
	slices.Sort(all)
	return figure{rate: float64(len(all)) / d.Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100]}, nil
}

var value = make([]byte, 100)
var clientID = make([]byte, 16)

// request is a Propose of one put of 100 bytes, with the request that a client sends.
func request(k uint64) *pb.ProposeRequest {
	return &pb.ProposeRequest{Commands: []*pb.Command{{
		Request: &pb.Request{Client: clientID, Sequence: k, Oldest: k},
		Stamp:   1_700_000_000_000,
		Command: &pb.Command_PutKey{PutKey: &pb.PutKey{Key: "bench/0123456789", Value: value}},
	}}}
}

// echo answers each command as if it were applied at row 1.
func echo(m *pb.ProposeRequest) *pb.ProposeResponse {
	r := &pb.ProposeResponse{At: &pb.At{Index: 1, Incarnation: "0123456789abcdef"}}
	for i := range m.Commands {
		r.Answers = append(r.Answers, &pb.Answer{Status: pb.Answer_APPLIED, Index: 1_000_000, Position: uint32(i),
			FirstIndex: 1_000_000, FirstPosition: uint32(i), Result: &pb.Result{Result: &pb.Result_PutKey{
				PutKey: &pb.PutKeyResult{Version: 256_000_000}}}})
	}
	return r
}
