; The number of threads of one library; 0 is the default.
@tcopt_num_threads = weak hidden global i32 0

define weak void @tcopt_set_threads(i32 %number) nounwind {
  store atomic i32 %number, ptr @tcopt_num_threads monotonic, align 4
  ret void
}

; Not 0 while a run of this library is to end.
@tcopt_stop = weak hidden global i32 0

; Ends the run that is going on, whose entry point then returns the number. 0 lets the next one run.
define weak void @tcopt_cancel(i32 %number) nounwind {
  store atomic i32 %number, ptr @tcopt_stop monotonic, align 4
  ret void
}
