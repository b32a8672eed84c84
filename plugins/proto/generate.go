// Package proto holds the wire between hosts and backends: the .proto source, the code generated
// from it, and (wire) the checked conversions between it and package kernel.
package proto

//go:generate go run -C ../../tools ./protogen ../plugins/proto tilewright/plugin/v1/plugin.proto
