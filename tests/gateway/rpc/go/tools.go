//go:build tools

// The generators of the client, so that go.mod and go.sum pin them.
package main

import (
	_ "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
	_ "google.golang.org/protobuf/cmd/protoc-gen-go"
)
