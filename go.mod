module github.com/tilewright/tilewright

go 1.26
