// RUN: tcopt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A VDLA target gives the sizes of its memories; other fields have defaults.
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: tcopt.target = #target.vdla<results = "i32", features = "", arbitration = "first-come", rows = 1, block_in = 16, block_out = 16, inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768, port_bytes = 8, port_cycles = 1, channels = 1, latency = 16, row_cycles = 1, fetch = 16, fill = 6, gemm_cycles = 1, alu_imm = 1, alu_reg = 2, rewrite = 1, start = 0, queue = 512, tokens = 1024>

// -----

// Memory sizes must be multiples of an entry.
module attributes {tcopt.target = #target.vdla<inp_bytes = 32768, wgt_bytes = 1000, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: wgt_bytes = 1000 should be whole entries of 256 bytes

// -----

// Entry indices must fit the fields of an instruction.
module attributes {tcopt.target = #target.vdla<inp_bytes = 65536, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: inp_bytes = 65536 are 4096 entries, instructions can address 2048

// -----

// Unknown features are rejected.
module attributes {tcopt.target = #target.vdla<features = "alu,divide", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: feature "divide" should be one of alu, mulh, load_i8

// -----

// An ALU multiply feature needs an ALU.
module attributes {tcopt.target = #target.vdla<features = "mulh", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: feature "mulh" requires "alu"

// -----

// There must be at least one store type.
module attributes {tcopt.target = #target.vdla<results = "", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: results = "" should name some of i32, i8

// -----

// The arbitration policy of the memory port must be known.
module attributes {tcopt.target = #target.vdla<arbitration = "fair", inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: arbitration "fair" should be one of first-come, priority

// -----

// The port's bandwidth must be positive.
module attributes {tcopt.target = #target.vdla<port_bytes = 0, inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: port_bytes = 0 should be at least 1

// -----

// The port has one channel, or one for each direction.
module attributes {tcopt.target = #target.vdla<channels = 3, inp_bytes = 32768, wgt_bytes = 32768, acc_bytes = 131072, uop_bytes = 32768>} {}
// CHECK: channels = 3 should be 1 or 2
