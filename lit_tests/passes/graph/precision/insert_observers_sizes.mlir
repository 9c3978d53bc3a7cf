// RUN: tcopt %s -p 'insert-observers{keep=1 axes="all"}' | filecheck %s
// RUN: tcopt %s -p 'insert-observers{axes="all","all"}' | filecheck %s --check-prefix=ALL

// The values of defined sizes stay results as long as another result has the size.
// CHECK:       module attributes {{.*}}"y", "r:minimum", "r:maximum", "n"]
// CHECK-SAME:  graph.sizes = 1 : i64
// CHECK:       func.return %y, %{{.*}}, %{{.*}}, %n_count :
// ALL:         module attributes {{.*}}"y:minimum", "y:maximum", "r:minimum", "r:maximum"]
// ALL-SAME:    graph.sizes = 0 : i64
module attributes {graph.outputs = ["y", "r", "n", "m"], graph.sizes = 2 : i64} {
  func.func @main(%x: tensor<8xf32>, %n_count: tensor<1xi64>, %m_count: tensor<1xi64>)
      -> (tensor<8xf32, #size.dims<n[0:8]>>, tensor<8xf32, #size.dims<m[0:8]>>, tensor<1xi64>,
          tensor<1xi64>) {
    %n = size.define %n_count as <n[0:8]> : tensor<1xi64>
    %m = size.define %m_count as <m[0:8]> : tensor<1xi64>
    %y = graph.slice %x {starts = [0]} : tensor<8xf32, #size.dims<n[0:8]>>
    %r = graph.slice %x {starts = [0]} : tensor<8xf32, #size.dims<m[0:8]>>
    return %y, %r, %n_count, %m_count : tensor<8xf32, #size.dims<n[0:8]>>,
      tensor<8xf32, #size.dims<m[0:8]>>, tensor<1xi64>, tensor<1xi64>
  }
}
