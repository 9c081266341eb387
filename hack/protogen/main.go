// Command protogen generates Go code from .proto files without protoc: it compiles them in
// process and runs the two generators, which are tools of its module.
//
//	go run -C hack/protogen . DIRECTORY FILE...
//
// The files are relative to the directory. The generated files are written beside them.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// generators are the tools, in order.
var generators = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen DIRECTORY FILE...")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "protogen: %v\n", err)
		os.Exit(1)
	}
}

// generate compiles the files, and runs all generators.
func generate(ctx context.Context, directory string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{directory}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // for comments in the generated code
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: files,
		Parameter:      proto.String("paths=source_relative"),
	}
	seen := map[string]bool{}
	for _, file := range compiled {
		request.ProtoFile = withImports(request.ProtoFile, file, seen)
	}
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return err
	}
	for _, generator := range generators {
		if err := run(ctx, generator, in, directory); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	return nil
}

// withImports appends the file after its imports, each file once.
func withImports(to []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return to
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		to = withImports(to, imports.Get(i).FileDescriptor, seen)
	}
	return append(to, protoutil.ProtoFromFileDescriptor(file))
}

// run runs one generator, and writes its files.
func run(ctx context.Context, generator string, request []byte, directory string) error {
	command := exec.CommandContext(ctx, "go", "tool", generator)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	out, err := command.Output()
	if err != nil {
		return err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		return err
	}
	if response.GetError() != "" {
		return errors.New(response.GetError())
	}
	for _, file := range response.GetFile() {
		if err := os.WriteFile(filepath.Join(directory, file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
