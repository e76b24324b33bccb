// A writer and a reader over gRPC: `write HOST:PORT,… LOG` and `read HOST:PORT,… LOG END`.
//
// Up to eight batches are under way. After an error the writer sends all batches without an answer
// again, in their order and with their sequences, in a new stream.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pb "quire.invalid/client/gatewayv1"
)

const (
	window  = 8
	records = 2
	pause   = 10 * time.Millisecond
	patient = 5 * time.Second
)

type batch struct {
	first   int
	request *pb.AppendRequest
}

func dial(address string) pb.LogsClient {
	channel, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return pb.NewLogsClient(channel)
}

// attempt sends what is pending and more, until the stream fails or all is answered after the end.
// It returns the metadata of the error, nil at the end.
func attempt(logs pb.LogsClient, pending *[]batch, next func() (batch, bool)) metadata.MD {
	following, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := time.AfterFunc(patient, cancel)
	defer late.Stop()
	stream, err := logs.Append(following)
	if err != nil {
		return metadata.MD{}
	}
	for _, each := range *pending {
		_ = stream.Send(each.request) // an error of the stream comes with Recv
	}
	for {
		for len(*pending) < window {
			made, more := next()
			if !more {
				break
			}
			*pending = append(*pending, made)
			_ = stream.Send(made.request)
		}
		if len(*pending) == 0 {
			return nil
		}
		reply, err := stream.Recv()
		if err != nil {
			trailer := stream.Trailer()
			if trailer == nil {
				trailer = metadata.MD{}
			}
			return trailer
		}
		late.Reset(patient)
		answered := (*pending)[0]
		*pending = (*pending)[1:]
		for place := range answered.request.Records {
			fmt.Println("acked", answered.first+place, reply.FirstOffset+int64(place))
		}
		time.Sleep(pause)
	}
}

func write(addresses []string, name string) {
	ending := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ending)
	}()
	sent, sequence := 0, int64(0)
	next := func() (batch, bool) {
		select {
		case <-ending:
			return batch{}, false
		default:
		}
		sequence++
		made := batch{sent, &pb.AppendRequest{Log: name, Producer: &pb.Producer{Id: "go", Sequence: sequence}}}
		for i := 0; i < records; i++ {
			payload := []byte(fmt.Sprintf("go-%d", sent))
			made.request.Records = append(made.request.Records, &pb.NewRecord{Payload: payload})
			sent++
		}
		return made, true
	}
	clients := map[string]pb.LogsClient{}
	for _, each := range addresses {
		clients[each] = dial(each)
	}
	pending := []batch{}
	turn, place := 0, addresses[0]
	for {
		problem := attempt(clients[place], &pending, next)
		if problem == nil {
			return
		}
		for _, code := range problem.Get("quire-error") {
			switch code {
			case "invalid_request", "sequence_conflict", "offset_conflict", "sealed", "not_permitted":
				fmt.Println("failed", pending[0].first, problem)
				return
			}
		}
		turn++
		place = addresses[turn%len(addresses)]
		for _, location := range problem.Get("quire-location") {
			if clients[location] != nil {
				place = location
			}
		}
		time.Sleep(pause)
	}
}

func read(address string, name string, end int64) {
	reading, cancel := context.WithCancel(context.Background())
	defer cancel()
	replies, err := dial(address).Read(reading, &pb.ReadRequest{Log: name, Follow: true})
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for last := int64(-1); last < end-1; {
		reply, err := replies.Recv()
		if err != nil {
			log.Fatal(err)
		}
		for _, each := range reply.Records {
			last = each.Offset
			fmt.Fprintln(out, last, string(each.Payload))
		}
	}
}

func main() {
	addresses := strings.Split(os.Args[2], ",")
	if os.Args[1] == "write" {
		write(addresses, os.Args[3])
		return
	}
	end, err := strconv.ParseInt(os.Args[4], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	read(addresses[0], os.Args[3], end)
}
