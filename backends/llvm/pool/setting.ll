; The number of threads of one library; 0 is the default.
@tcopt_num_threads = weak hidden global i32 0

define weak void @tcopt_set_threads(i32 %number) nounwind {
  store atomic i32 %number, ptr @tcopt_num_threads monotonic, align 4
  ret void
}
