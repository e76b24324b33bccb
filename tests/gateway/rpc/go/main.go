// A program over the client that is generated from logs.proto.
//
// It appends a stream of numbered batches, follows while it appends more, repeats one, and prints
// each fact as a line. The test compares the lines.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "quire.invalid/client/gatewayv1"
)

func batch(sequence int64, payloads ...string) *pb.AppendRequest {
	made := &pb.AppendRequest{Log: "orders", Producer: &pb.Producer{Id: "go", Sequence: sequence}}
	for _, each := range payloads {
		made.Records = append(made.Records, &pb.NewRecord{Payload: []byte(each), Key: []byte("anna")})
	}
	return made
}

func tell(err error, trailer metadata.MD) {
	fmt.Println("error", status.Code(err), trailer.Get("quire-error"))
}

// send sends batches in one stream, and prints its answers and its end.
func send(logs pb.LogsClient, batches ...*pb.AppendRequest) {
	stream, err := logs.Append(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, each := range batches {
		if err := stream.Send(each); err != nil && err != io.EOF {
			log.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		log.Fatal(err)
	}
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			fmt.Println("end")
			return
		}
		if err != nil {
			tell(err, stream.Trailer())
			return
		}
		fmt.Println("appended", reply.Records, "at", reply.FirstOffset)
	}
}

func main() {
	channel, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()
	logs := pb.NewLogsClient(channel)
	send(logs, batch(1, "a", "b"), batch(2, "c"))
	following, cancel := context.WithCancel(context.Background())
	defer cancel()
	replies, err := logs.Read(following, &pb.ReadRequest{Log: "orders", Follow: true})
	if err != nil {
		log.Fatal(err)
	}
	send(logs, batch(2, "c"), batch(3, "d"))
	for seen := 0; seen < 4; {
		reply, err := replies.Recv()
		if err != nil {
			log.Fatal(err)
		}
		for _, each := range reply.Records {
			fmt.Println("read", each.Offset, string(each.Key), string(each.Payload))
			seen++
		}
	}
	wrong := batch(4, "e")
	expected := int64(77)
	wrong.ExpectedOffset = &expected
	send(logs, wrong)
	send(logs, &pb.AppendRequest{Log: "orders"})
	missing, err := logs.Read(context.Background(), &pb.ReadRequest{Log: "gone"})
	if err == nil {
		_, err = missing.Recv()
		tell(err, missing.Trailer())
	}
}
